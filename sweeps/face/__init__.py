"""What `import sweeps` gives: a spec, a check, a run, and a sweep with everything that can be asked of it."""
