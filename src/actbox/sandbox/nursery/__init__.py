"""The nursery: the process of the `linux` engine from which every guest is forked.

Standard library only. It runs our code and imports the environment's packages; it never runs a program.
"""
