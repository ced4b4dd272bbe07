"""Governed capabilities: named operations, with budgets, approvals, labels, a journal and metering."""
