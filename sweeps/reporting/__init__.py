"""What people see of a sweep: summary, front, tables, figures, report page and glossary."""
