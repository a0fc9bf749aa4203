"""The exam that SQLite and Postgres sit: `questions.QUESTIONS`, the duties of `sweeps.store.store` one by one."""
