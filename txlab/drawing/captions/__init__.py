"""What is to be seen on a screen, in a sentence with the numbers of what it shows.

A caption is a function of what is drawn, mostly a frame. It says nothing, (), where a number is missing or not finite:
any program may have recorded the frame.
"""
