"""The coding agents that the product is put into, one module each: their files, what is written there, what works.

`base` says what a module of a harness has to say; `plans` does the same with all of them. Nothing in here is imported
by what starts once per session.
"""
