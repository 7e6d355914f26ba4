"""Makes boxes.ttf: every letter is the same box, so that a page looks alike wherever its picture is taken.

Run beside it, with fonttools of the Python package index.
"""

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

EM, ADVANCE, HEIGHT = 1000, 520, 520


def box() -> object:
    pen = TTGlyphPen(None)
    pen.moveTo((60, 0))
    for corner in ((60, HEIGHT), (ADVANCE - 60, HEIGHT), (ADVANCE - 60, 0)):
        pen.lineTo(corner)
    pen.closePath()
    return pen.glyph()


font = FontBuilder(EM, isTTF=True)
font.setupGlyphOrder([".notdef", "space", "box"])
font.setupCharacterMap({0x20: "space", 0x41: "box"})
font.setupGlyf({".notdef": box(), "space": TTGlyphPen(None).glyph(), "box": box()})
font.setupHorizontalMetrics({name: (ADVANCE, 0) for name in (".notdef", "space", "box")})
font.setupHorizontalHeader(ascent=900, descent=-250)
font.setupNameTable({"familyName": "Boxes", "styleName": "Regular"}, mac=False)
font.setupOS2(sTypoAscender=900, sTypoDescender=-250, usWinAscent=900, usWinDescent=250, sxHeight=HEIGHT, sCapHeight=HEIGHT)
font.setupPost()
# Many letters to one glyph; all of them but spaces to the box.
letters = CmapSubtable.newSubtable(13)
letters.platformID, letters.platEncID, letters.language = 3, 10, 0
letters.format = 13
letters.cmap = {letter: "space" if letter in (0x20, 0xA0, 0x2009, 0x202F) else "box" for letter in range(0x20, 0x3000)}
font.font["cmap"].tables.append(letters)
font.font["head"].created = font.font["head"].modified = 0
font.font.recalcTimestamp = False
font.save(Path(__file__).with_name("boxes.ttf"))
