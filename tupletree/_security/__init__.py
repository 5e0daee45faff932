"""Security: TLS, tokens, rights and the audit log. See docs/security.md for the threat model.

Everything here is off by default. ``rights.py`` lists the required right of every call and page.
"""
