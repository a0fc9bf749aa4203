"""Small models that have broken, or could break, the bound on one record's influence."""
