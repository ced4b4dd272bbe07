"""Plain data for all parts of actbox: programs, policies, events, results, errors. No I/O, no dependencies."""
