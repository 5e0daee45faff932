"""Spouts and bolts in other languages, by Storm's multilang protocol: JSON over the pipes of a child process.

    builder.set_spout("lines", ShellSpout(["node", "lines.js"], ["line"]))
    builder.set_bolt("split", ShellBolt(["ruby", "split.rb"], ["word"])).shuffle_grouping("lines")

Components written with pystorm or streamparse run in the worker itself:

    builder.set_bolt("count", PystormBolt(WordCountBolt)).fields_grouping("split", "word")

See docs/guides/multilang.md. Source: https://storm.apache.org/releases/current/Multilang-protocol.html
"""

from tupletree.multilang.child import ChildError
from tupletree.multilang.pystorm_components import PystormBolt, PystormSpout
from tupletree.multilang.settings import PYTHON
from tupletree.multilang.shell_bolt import ShellBolt
from tupletree.multilang.shell_spout import ShellSpout

__all__ = ["PYTHON", "ChildError", "PystormBolt", "PystormSpout", "ShellBolt", "ShellSpout"]
