"""Answers for many hosts from the tables that hugewise collect writes."""

__version__ = "0.1.0"
