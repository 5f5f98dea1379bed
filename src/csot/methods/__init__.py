"""One method per file; the file's name is the method's name on the command line.

Files that start with an underscore hold what methods share. A method file defines one sub-class of
`Method`; putting the file here is all it takes to enrol it.
"""

from csot.methods.core.registry import find_method as find_method
from csot.methods.core.registry import method_names as method_names
