"""Loading: detects networks in files and folders, maps their names, and builds them.

``headers`` and ``parts`` are torch-free (they also serve recommendations and cache keys); ``networks`` builds.
"""
