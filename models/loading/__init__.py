"""From files to values: what lies in a folder or file, under which names, and how it becomes networks.

``headers`` and ``parts`` are torch-free (they also serve recommendations and cache keys); ``networks`` builds.
"""
