"""The ledger across sweeps: a population of records has a budget of its own, which all sweeps over it share.

A population is a declared public fact (`data.population: NAME`): subsets, appended and re-encoded files belong together
because somebody says so, never because their records were compared.

arithmetic  from what is in the ledger to what is spent and what is left: functions alone
charging    what an attempt, an audit or a reading of test records costs, by the ledger's rule
blocks      the whole of a sweep as one row, reserved before its first trial
joining     what a sweep needs before it may begin over a population
refuted     rows whose claim an audit refuted, and systems that are launched no more
declared_public  records that a sweep declares public: what no ledger counts
accounts    a population's account as views show it
budget_command  `sweeps budget`
"""
