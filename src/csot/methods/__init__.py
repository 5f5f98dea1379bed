"""Training methods: one method per file, and the file's name is the method's name.

`core` holds the contract between methods and the training loop, `parts` what several methods share.
To add a method, add a file that defines one sub-class of `Method`.
"""

from csot.methods.core.batches import one_stream as one_stream
from csot.methods.core.batches import side_by_side as side_by_side
from csot.methods.core.contract import Batch as Batch
from csot.methods.core.contract import Context as Context
from csot.methods.core.contract import Judgement as Judgement
from csot.methods.core.contract import Losses as Losses
from csot.methods.core.contract import Method as Method
from csot.methods.core.contract import Part as Part
from csot.methods.core.contract import Predictions as Predictions
from csot.methods.core.contract import Role as Role
from csot.methods.core.contract import Settings as Settings
from csot.methods.core.contract import Split as Split
from csot.methods.core.contract import Steps as Steps
from csot.methods.core.contract import Stream as Stream
from csot.methods.core.method_registry import find_method as find_method
from csot.methods.core.method_registry import method_names as method_names
