"""Plain data that every room speaks: programs, policies, events, results, errors. No I/O, no dependencies."""
