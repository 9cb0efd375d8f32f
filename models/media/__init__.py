"""Images, videos and sound: what files hold, how they are read and written, and operations on them. No networks."""
