"""What the tables are called, and how what is wrong with them is told."""

TABLES = ("hosts", "pools", "instances", "moments", "cases", "findings", "incidents", "failures")


class LakeError(Exception):
    """What is wrong with the tables, and what to do."""
