#!/bin/sh
# Run once by the image's entry point, on an empty volume: the store's database, MLflow's, and that of MLflow's users.
set -eu
prefix="${SECRETS_PREFIX:-/run/secrets/postgres_}"
for name in sweeps mlflow; do
    psql --username postgres --set ON_ERROR_STOP=1 --set name="$name" --set password="$(cat "$prefix$name")" << 'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
SQL
done
psql --username postgres --set ON_ERROR_STOP=1 --command 'CREATE DATABASE mlflow_users OWNER mlflow'
