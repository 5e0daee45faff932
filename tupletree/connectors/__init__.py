"""Connectors: spouts and bolts for the systems that tuples come from and go to.

Each system has a module and an extra of its own: ``pip install 'tupletree[beanstalkd]'``,
``from tupletree.connectors.beanstalkd import BeanstalkSpout``. Formats are in ``tupletree.connectors.formats``,
``.avro`` and ``.registry``.
"""

from __future__ import annotations
