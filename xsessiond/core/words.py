"""Two plain words to tell sessions of one folder apart.

Laws: short, friendly, ASCII, easy to say and to type, no two alike. There are a power of two of each, which
`names.suggest_names` counts on.
Refuses to know: anything else.
"""

from __future__ import annotations

from typing import Final

_QUALITIES: Final = """
    able agile airy amber ample apt azure balmy bold brave breezy bright brisk broad calm candid
    cheery chief civil clear clever cobalt cosy crisp dapper daring deft eager early easy even fair
    fancy fine firm fleet fond frank fresh gentle giant glad golden good grand green handy happy
    hardy hazel honest humble ivory jade jolly keen kind lively loyal lucid lucky mellow merry mild
    misty modest mossy neat nimble noble novel olive open patient pearl plain placid playful polite proud
    pure quick quiet rapid ready rosy round royal ruby rustic sandy sage scarlet serene sharp shiny
    silent silver simple sincere sleek smart smooth snowy social soft solid sound spry stable steady still
    stout sturdy sunny super sure sweet swift tall teal tidy tough vivid warm wise witty young
"""
QUALITIES: Final = tuple(_QUALITIES.split())
"""128 words for how it is."""

_NOUNS: Final = """
    acorn alder apple arch aspen badger bay beach beacon beaver birch bird bison brook canyon cedar
    cherry cliff cloud clover comet coral crane creek cricket dawn deer delta dolphin dove dune eagle
    elk elm falcon fern field finch fjord forest fox garden geyser glade grove gull harbor hare
    harp hawk hazelnut heron hill hollow island ivy jay jetty juniper kite koala lagoon lake lantern
    larch lark leaf lemon lily linden lion llama lotus lynx magpie mango maple marsh meadow melon
    mesa mole moon moose nutmeg oak ocean orchid osprey otter owl panda peach pebble pelican pepper
    pier pine plum pond poplar puffin quail rabbit raven reef ridge river robin rowan salmon seal
    shore sparrow spruce star stork stream summit swan thyme tiger trail tulip valley walnut willow wren
"""
NOUNS: Final = tuple(_NOUNS.split())
"""128 words for what it is."""
