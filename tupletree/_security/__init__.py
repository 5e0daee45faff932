"""Who may do what: TLS, tokens, rights and the audit log. docs/security.md states what this protects from.

Everything here is off by default. ``rights.py`` is the table of every call and page with the right it needs.
"""
