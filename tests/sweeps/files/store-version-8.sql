-- A Postgres store of schema version 8, by pg_dump.
CREATE TABLE public.populations (
    name text NOT NULL,
    rule text NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    adjacency text NOT NULL,
    unit text NOT NULL,
    tau double precision NOT NULL,
    at double precision NOT NULL,
    CONSTRAINT population_rule CHECK ((rule = ANY (ARRAY['linear'::text, 'gdp'::text])))
);
CREATE TABLE public.charges (
    population text NOT NULL,
    kind text NOT NULL,
    what text NOT NULL,
    sweep text NOT NULL,
    epsilon double precision,
    delta double precision,
    mu double precision,
    tau double precision,
    settled double precision,
    at double precision NOT NULL,
    CONSTRAINT one_rule CHECK (((epsilon IS NULL) <> (mu IS NULL))),
    CONSTRAINT refund CHECK (((settled IS NULL) OR (settled <= epsilon)))
);
CREATE TABLE public.attempts (
    sweep_id integer NOT NULL,
    number bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    launch text NOT NULL,
    token bigint NOT NULL,
    content text NOT NULL,
    reason text NOT NULL,
    step bigint NOT NULL,
    metrics text NOT NULL,
    seconds double precision NOT NULL,
    started_at double precision NOT NULL,
    ended_at double precision,
    CONSTRAINT attempt_outcome CHECK ((outcome = ANY (ARRAY['running'::text, 'settled'::text, 'lost'::text, 'failed'::text])))
);
CREATE TABLE public.calibrations (
    key text NOT NULL,
    value double precision NOT NULL
);
CREATE TABLE public.curves (
    sweep_id integer NOT NULL,
    number bigint NOT NULL,
    step bigint NOT NULL,
    metric text NOT NULL,
    value double precision NOT NULL,
    attempt integer NOT NULL,
    at double precision NOT NULL
);
CREATE TABLE public.extensions (
    sweep_id integer NOT NULL,
    number integer NOT NULL,
    trials bigint,
    hours double precision,
    launched bigint NOT NULL,
    at double precision NOT NULL,
    epsilon text DEFAULT '[]'::text NOT NULL,
    proposed bigint DEFAULT '0'::bigint NOT NULL
);
CREATE TABLE public.keys (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.leases (
    sweep_id integer NOT NULL,
    token bigint NOT NULL,
    holder text,
    expires_at double precision NOT NULL
);
CREATE TABLE public.ledger (
    sweep_id integer NOT NULL,
    number bigint NOT NULL,
    attempt integer NOT NULL,
    from_step bigint NOT NULL,
    to_step bigint NOT NULL,
    executed_to bigint,
    CONSTRAINT reservation_order CHECK (((0 <= from_step) AND (from_step < to_step))),
    CONSTRAINT settlement CHECK (((executed_to IS NULL) OR ((from_step <= executed_to) AND (executed_to <= to_step))))
);
CREATE TABLE public.names (
    name text NOT NULL,
    sweep_id integer NOT NULL
);
CREATE TABLE public.outbox (
    id bigint NOT NULL,
    sweep_id integer NOT NULL,
    number bigint,
    kind text NOT NULL,
    at double precision NOT NULL
);
CREATE SEQUENCE public.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.outbox_id_seq OWNED BY public.outbox.id;
CREATE TABLE public.requests (
    id bigint NOT NULL,
    sweep_id integer NOT NULL,
    kind text NOT NULL,
    content text NOT NULL,
    asker text NOT NULL,
    at double precision NOT NULL,
    call text NOT NULL
);
CREATE SEQUENCE public.requests_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.requests_id_seq OWNED BY public.requests.id;
CREATE TABLE public.schema_version (
    version integer NOT NULL
);
CREATE SEQUENCE public.schema_version_version_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.schema_version_version_seq OWNED BY public.schema_version.version;
CREATE TABLE public.sweeps (
    id integer NOT NULL,
    name text NOT NULL,
    spec text NOT NULL,
    digest text NOT NULL,
    fingerprints text NOT NULL,
    root text NOT NULL,
    created_at double precision NOT NULL,
    state text NOT NULL,
    records text DEFAULT ''::text NOT NULL,
    label text DEFAULT ''::text NOT NULL,
    population text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.sweeps_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sweeps_id_seq OWNED BY public.sweeps.id;
CREATE TABLE public.trials (
    sweep_id integer NOT NULL,
    number bigint NOT NULL,
    state text NOT NULL,
    config text NOT NULL,
    seed text NOT NULL,
    violations text NOT NULL,
    reason text NOT NULL,
    metrics text NOT NULL,
    guarantee text NOT NULL,
    step bigint NOT NULL,
    attempts integer NOT NULL,
    proposed_at double precision NOT NULL,
    finished_at double precision,
    plan text NOT NULL,
    request bigint,
    CONSTRAINT trial_state CHECK ((state = ANY (ARRAY['planned'::text, 'running'::text, 'complete'::text, 'failed'::text, 'infeasible'::text])))
);
ALTER TABLE ONLY public.outbox ALTER COLUMN id SET DEFAULT nextval('public.outbox_id_seq'::regclass);
ALTER TABLE ONLY public.requests ALTER COLUMN id SET DEFAULT nextval('public.requests_id_seq'::regclass);
ALTER TABLE ONLY public.schema_version ALTER COLUMN version SET DEFAULT nextval('public.schema_version_version_seq'::regclass);
ALTER TABLE ONLY public.sweeps ALTER COLUMN id SET DEFAULT nextval('public.sweeps_id_seq'::regclass);
INSERT INTO public.attempts VALUES (1, 0, 1, 'settled', 'f55605d6366adfe9', 1, '4151338cbe3c84c751e6234e31349ccf7acf451ce45435bb5970ec25b618bb78', '', 30, '{"accuracy":0.3}', 2, 1795248743.9064457, 1795248743.9119515);
INSERT INTO public.attempts VALUES (1, 0, 2, 'settled', '0ce502931f90cd24', 1, 'f6730446efcf291ae56f62f6e13deb332c0ebecea4106bef974fdac403b44e1a', '', 100, '{"accuracy":0.5,"epsilon":1.0}', 2, 1795248743.9173155, 1795248743.9212315);
INSERT INTO public.attempts VALUES (1, 1, 1, 'failed', '929760f83209d460', 1, 'fc58dc525ed6b8e6c893b704e5f9409c950d3bedfffbaf8537fdce3019a4aa82', 'accuracy=nan', 0, '{}', 0, 1795248743.926559, 1795248743.9291527);
INSERT INTO public.attempts VALUES (1, 2, 1, 'lost', 'f3cd0899ded67d32', 1, '3b26e8c6503e0092adfdc7007acedba2c296eba43386f91437e09b9648d22496', 'worker lost', 0, '{}', 0, 1795248743.9320488, 1795248743.9344318);
INSERT INTO public.attempts VALUES (1, 3, 1, 'running', '7b572abd2be0be53', 1, '', '', 0, '{}', 0, 1795248743.9373116, NULL);
INSERT INTO public.calibrations VALUES ('noise|example', 1.5);
INSERT INTO public.curves VALUES (1, 0, 60, 'accuracy', 0.4, 2, 1795248743.918);
INSERT INTO public.curves VALUES (1, 0, 60, 'loss', 1.5, 2, 1795248743.918);
INSERT INTO public.extensions VALUES (1, 1, 80, NULL, 40, 1700000000.5, '[2.5,4.0]', 45);
INSERT INTO public.keys VALUES ('data', '2866525fabc78a1dcac9721c17517e6fd760aa723596af33c289a9ba4665750b');
INSERT INTO public.leases VALUES (1, 1, '{"host":"node-1","machine":"boot pid:[1]","pid":42,"pid_started":"7","since":1.5e9,"acquisition":"aa"}', 1600000000);
INSERT INTO public.ledger VALUES (1, 0, 1, 0, 30, 30);
INSERT INTO public.ledger VALUES (1, 0, 2, 30, 100, 100);
INSERT INTO public.ledger VALUES (1, 1, 1, 0, 100, 70);
INSERT INTO public.ledger VALUES (1, 2, 1, 0, 100, 60);
INSERT INTO public.ledger VALUES (1, 3, 1, 0, 100, NULL);
INSERT INTO public.outbox VALUES (2, 1, 0, 'settled', 1795248743.9212315);
INSERT INTO public.outbox VALUES (3, 1, 1, 'failed', 1795248743.9291527);
INSERT INTO public.outbox VALUES (4, 1, 2, 'lost', 1795248743.9344318);
INSERT INTO public.outbox VALUES (5, 1, 4, 'infeasible', 1795248743.9398248);
INSERT INTO public.outbox VALUES (6, 1, NULL, 'state', 1795248743.9422827);
INSERT INTO public.names VALUES ('quick-start', 1);
INSERT INTO public.populations VALUES ('people', 'linear', 3, 0.0001, 'add-remove', 'record', 0, 1700000000);
INSERT INTO public.populations VALUES ('covered', 'gdp', 3, 0.0001, 'add-remove', 'record', 1e-08, 1700000000);
INSERT INTO public.charges VALUES ('people', 'attempt', 'earlier-0/1', 'earlier', 1, 1e-05, NULL, NULL, NULL, 1700000000);
INSERT INTO public.charges VALUES ('people', 'sweep', 'first', 'first', 1.5, 2e-05, NULL, NULL, 0.5, 1700000001);
INSERT INTO public.charges VALUES ('covered', 'audit', 'twin', 'earlier', NULL, NULL, 0.25, 1e-09, NULL, 1700000002);
INSERT INTO public.schema_version VALUES (8);
INSERT INTO public.sweeps VALUES (1, 'quick-start', '{"name":"quick-start","systems":{"noisy-sgd":{"z":1,"a":2}}}', 'abc', '{"code":"c0"}', '/data/sweeps', 1500000000, 'running', '', '', '');
INSERT INTO public.trials VALUES (1, 0, 'complete', '{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":0.25,"batch_size":64}', '9223372036854775808', '{}', '', '{"accuracy":0.5,"epsilon":1.0}', '{"notion":"differential-privacy","epsilon":1.0,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null}', 100, 2, 1795248743.9064457, 1795248743.9212315, '{"system":"noisy-sgd","config":{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":0.5,"noise_multiplier":1.5},"solved":["noise_multiplier"],"mechanism":"Poisson-sampled noisy gradients","schedule":[[{"kind":"poisson-sampled","rate":0.01,"event":{"kind":"gaussian","noise_multiplier":1.5,"adjacency":"add-remove"}},100]],"guarantee":{"notion":"differential-privacy","epsilon":1.0,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},"beside":[{"notion":"differential-privacy","epsilon":1.2,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},{"notion":"differential-privacy","epsilon":1.3,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null}],"work":100000.0,"group":""}', NULL);
INSERT INTO public.trials VALUES (1, 1, 'failed', '{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":1.25,"batch_size":64}', '9223372036854775809', '{}', 'accuracy=nan', '{}', 'null', 0, 1, 1795248743.926559, 1795248743.9291527, '{"system":"noisy-sgd","config":{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":0.5,"noise_multiplier":1.5},"solved":["noise_multiplier"],"mechanism":"Poisson-sampled noisy gradients","schedule":[[{"kind":"poisson-sampled","rate":0.01,"event":{"kind":"gaussian","noise_multiplier":1.5,"adjacency":"add-remove"}},100]],"guarantee":{"notion":"differential-privacy","epsilon":1.0,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},"beside":[{"notion":"differential-privacy","epsilon":1.2,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},{"notion":"differential-privacy","epsilon":1.3,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null}],"work":100000.0,"group":""}', NULL);
INSERT INTO public.trials VALUES (1, 2, 'planned', '{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":2.25,"batch_size":64}', '9223372036854775810', '{}', 'worker lost', '{}', 'null', 0, 1, 1795248743.9320488, NULL, '{"system":"noisy-sgd","config":{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":0.5,"noise_multiplier":1.5},"solved":["noise_multiplier"],"mechanism":"Poisson-sampled noisy gradients","schedule":[[{"kind":"poisson-sampled","rate":0.01,"event":{"kind":"gaussian","noise_multiplier":1.5,"adjacency":"add-remove"}},100]],"guarantee":{"notion":"differential-privacy","epsilon":1.0,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},"beside":[{"notion":"differential-privacy","epsilon":1.2,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},{"notion":"differential-privacy","epsilon":1.3,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null}],"work":100000.0,"group":""}', NULL);
INSERT INTO public.trials VALUES (1, 3, 'running', '{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":3.25,"batch_size":64}', '9223372036854775811', '{}', '', '{}', 'null', 0, 1, 1795248743.9373116, NULL, '{"system":"noisy-sgd","config":{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":0.5,"noise_multiplier":1.5},"solved":["noise_multiplier"],"mechanism":"Poisson-sampled noisy gradients","schedule":[[{"kind":"poisson-sampled","rate":0.01,"event":{"kind":"gaussian","noise_multiplier":1.5,"adjacency":"add-remove"}},100]],"guarantee":{"notion":"differential-privacy","epsilon":1.0,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},"beside":[{"notion":"differential-privacy","epsilon":1.2,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null},{"notion":"differential-privacy","epsilon":1.3,"delta":0.0001,"adjacency":"add-remove","unit":"record","accountant":"pld","status":"proved","theorem":"Zhu, Dong & Wang 2022, theorem 27","assumptions":["Every batch is a fresh Poisson sample.","floating-point: not covered"],"epsilon_lower":null}],"work":100000.0,"group":""}', NULL);
INSERT INTO public.trials VALUES (1, 4, 'infeasible', '{"system":"noisy-sgd","target_epsilon":1.0,"learning_rate":4.25,"batch_size":64}', '9223372036854775812', '{"noise":0.75}', 'noise_multiplier=9 needed: expected at most 4. Raise epsilon.', '{}', 'null', 0, 0, 1795248743.9398248, 1795248743.9398248, 'null', NULL);
SELECT pg_catalog.setval('public.outbox_id_seq', 6, true);
SELECT pg_catalog.setval('public.requests_id_seq', 1, false);
SELECT pg_catalog.setval('public.schema_version_version_seq', 1, false);
SELECT pg_catalog.setval('public.sweeps_id_seq', 1, true);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (sweep_id, number, attempt);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT calibrations_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.extensions
    ADD CONSTRAINT extensions_pkey PRIMARY KEY (sweep_id, number);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.curves
    ADD CONSTRAINT curves_pkey PRIMARY KEY (sweep_id, number, step, metric);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (sweep_id);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (sweep_id, number, attempt);
ALTER TABLE ONLY public.names
    ADD CONSTRAINT names_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_call_key UNIQUE (call);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT sweeps_name_key UNIQUE (name);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT sweeps_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_pkey PRIMARY KEY (sweep_id, number);
CREATE UNIQUE INDEX one_running_attempt ON public.attempts USING btree (sweep_id, number) WHERE (outcome = 'running'::text);
CREATE INDEX outbox_of_sweep ON public.outbox USING btree (sweep_id, id);
CREATE INDEX requests_of_sweep ON public.requests USING btree (sweep_id, id);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_sweep_id_number_fkey FOREIGN KEY (sweep_id, number) REFERENCES public.trials(sweep_id, number);
ALTER TABLE ONLY public.curves
    ADD CONSTRAINT curves_sweep_id_number_attempt_fkey FOREIGN KEY (sweep_id, number, attempt) REFERENCES public.attempts(sweep_id, number, attempt);
ALTER TABLE ONLY public.extensions
    ADD CONSTRAINT extensions_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_sweep_id_number_attempt_fkey FOREIGN KEY (sweep_id, number, attempt) REFERENCES public.attempts(sweep_id, number, attempt);
ALTER TABLE ONLY public.names
    ADD CONSTRAINT names_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES public.sweeps(id);
ALTER TABLE ONLY public.populations
    ADD CONSTRAINT populations_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (population, kind, what);
ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_population_fkey FOREIGN KEY (population) REFERENCES public.populations(name);
