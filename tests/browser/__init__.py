"""What a student sees, in a real browser: the lessons in JupyterLab, and the site."""
