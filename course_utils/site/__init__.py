"""The course as a site: the students' notebooks as pages that need no kernel, and nothing from elsewhere.

build          all pages into a folder, whole or not at all
running        the notebooks' outputs: each is run once, unsolved
pages          a lesson's page, and the page of contents
outline        what a lesson's notebook says about itself: title, points, minutes, exercises
cells          a notebook's cells as HTML: prose, code, outputs, widgets
mathematics    TeX as MathML, and the font for it
assets/        the style sheet, and the script that lets widgets live without a kernel
"""
