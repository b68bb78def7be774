"""Drawings that answer back: each widget shows a recorded trace, in a notebook or on a page of the site.

base            what a widget is: recorded data, a script, and a figure with a table in its stead
memory          scrub through a program: which array is alive when (lessons 01 to 03)
checkpoints     keep values or discard them: peak, price, schedule at once (lessons 03 and 04)
softmax         an online softmax block by block, right and with three slips (lesson 05)
roofline        what a machine allows an operation, as N and D move (lessons 06 and 08)
tiles           products and attention on the counting memory, event by event (lessons 06 and 07)
packed_events   recorded runs of that memory as lists of small integers
tile_places     where a product's or an attention's matrices stand in the drawing

A widget's data are plain: computed here, before anything is drawn. Its script (js/) draws them with SVG and
needs no kernel, so that the site shows the same. Nothing of a widget's state is ever saved in a notebook.
"""
