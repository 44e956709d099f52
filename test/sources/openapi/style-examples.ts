import type { JsonValue } from '#kernel/base/json'

/** Location, style, explode, name, value, and the text that arrives: the segment of a path, or the text after `?` in a query. */
export type StyleExample = readonly [
  place: 'path' | 'query',
  style: string,
  explode: boolean,
  name: string,
  value: JsonValue,
  expected: string,
]

const LIST = ['red', 'green', 'blue']
const KEYS = { semi: ';', dot: '.', comma: ',' }

/** RFC 6570 §3.2, with the variables of its §3.2: every expression that a style of OpenAPI can write. */
export const RFC_6570_EXAMPLES: readonly StyleExample[] = [
  // {var}, {hello}, {half}, {list}, {list*}, {keys}, {keys*}
  ['path', 'simple', false, 'var', 'value', 'value'],
  ['path', 'simple', false, 'hello', 'Hello World!', 'Hello%20World%21'],
  ['path', 'simple', false, 'half', '50%', '50%25'],
  ['path', 'simple', false, 'list', LIST, 'red,green,blue'],
  ['path', 'simple', true, 'list', LIST, 'red,green,blue'],
  ['path', 'simple', false, 'keys', KEYS, 'semi,%3B,dot,.,comma,%2C'],
  ['path', 'simple', true, 'keys', KEYS, 'semi=%3B,dot=.,comma=%2C'],
  // {.who}, {.half}, {.list}, {.list*}, {.keys}, {.keys*}
  ['path', 'label', false, 'who', 'fred', '.fred'],
  ['path', 'label', false, 'half', '50%', '.50%25'],
  ['path', 'label', false, 'list', LIST, '.red,green,blue'],
  ['path', 'label', true, 'list', LIST, '.red.green.blue'],
  ['path', 'label', false, 'keys', KEYS, '.semi,%3B,dot,.,comma,%2C'],
  ['path', 'label', true, 'keys', KEYS, '.semi=%3B.dot=..comma=%2C'],
  // {;who}, {;half}, {;empty}, {;list}, {;list*}, {;keys}, {;keys*}
  ['path', 'matrix', false, 'who', 'fred', ';who=fred'],
  ['path', 'matrix', false, 'half', '50%', ';half=50%25'],
  ['path', 'matrix', false, 'empty', '', ';empty'],
  ['path', 'matrix', false, 'list', LIST, ';list=red,green,blue'],
  ['path', 'matrix', true, 'list', LIST, ';list=red;list=green;list=blue'],
  ['path', 'matrix', false, 'keys', KEYS, ';keys=semi,%3B,dot,.,comma,%2C'],
  ['path', 'matrix', true, 'keys', KEYS, ';semi=%3B;dot=.;comma=%2C'],
  // {?who}, {?half}, {?empty}, {?list}, {?list*}, {?keys}, {?keys*}
  ['query', 'form', false, 'who', 'fred', 'who=fred'],
  ['query', 'form', false, 'half', '50%', 'half=50%25'],
  ['query', 'form', false, 'empty', '', 'empty='],
  ['query', 'form', false, 'list', LIST, 'list=red,green,blue'],
  ['query', 'form', true, 'list', LIST, 'list=red&list=green&list=blue'],
  ['query', 'form', false, 'keys', KEYS, 'keys=semi,%3B,dot,.,comma,%2C'],
  ['query', 'form', true, 'keys', KEYS, 'semi=%3B&dot=.&comma=%2C'],
]

const ARRAY = ['blue', 'black', 'brown']
const OBJECT = { R: 100, G: 200, B: 150 }

/** OpenAPI 3.1.1, "Style Examples", complete except for the empty `simple` and `label`, which would change the path. */
export const OPENAPI_EXAMPLES: readonly StyleExample[] = [
  ['path', 'matrix', false, 'color', '', ';color'],
  ['path', 'matrix', false, 'color', 'blue', ';color=blue'],
  ['path', 'matrix', false, 'color', ARRAY, ';color=blue,black,brown'],
  ['path', 'matrix', false, 'color', OBJECT, ';color=R,100,G,200,B,150'],
  ['path', 'matrix', true, 'color', '', ';color'],
  ['path', 'matrix', true, 'color', 'blue', ';color=blue'],
  ['path', 'matrix', true, 'color', ARRAY, ';color=blue;color=black;color=brown'],
  ['path', 'matrix', true, 'color', OBJECT, ';R=100;G=200;B=150'],
  ['path', 'label', false, 'color', 'blue', '.blue'],
  ['path', 'label', false, 'color', ARRAY, '.blue,black,brown'],
  ['path', 'label', false, 'color', OBJECT, '.R,100,G,200,B,150'],
  ['path', 'label', true, 'color', 'blue', '.blue'],
  ['path', 'label', true, 'color', ARRAY, '.blue.black.brown'],
  ['path', 'label', true, 'color', OBJECT, '.R=100.G=200.B=150'],
  ['path', 'simple', false, 'color', 'blue', 'blue'],
  ['path', 'simple', false, 'color', ARRAY, 'blue,black,brown'],
  ['path', 'simple', false, 'color', OBJECT, 'R,100,G,200,B,150'],
  ['path', 'simple', true, 'color', 'blue', 'blue'],
  ['path', 'simple', true, 'color', ARRAY, 'blue,black,brown'],
  ['path', 'simple', true, 'color', OBJECT, 'R=100,G=200,B=150'],
  ['query', 'form', false, 'color', '', 'color='],
  ['query', 'form', false, 'color', 'blue', 'color=blue'],
  ['query', 'form', false, 'color', ARRAY, 'color=blue,black,brown'],
  ['query', 'form', false, 'color', OBJECT, 'color=R,100,G,200,B,150'],
  ['query', 'form', true, 'color', '', 'color='],
  ['query', 'form', true, 'color', 'blue', 'color=blue'],
  ['query', 'form', true, 'color', ARRAY, 'color=blue&color=black&color=brown'],
  ['query', 'form', true, 'color', OBJECT, 'R=100&G=200&B=150'],
  ['query', 'spaceDelimited', false, 'color', ARRAY, 'color=blue%20black%20brown'],
  ['query', 'spaceDelimited', false, 'color', OBJECT, 'color=R%20100%20G%20200%20B%20150'],
  ['query', 'pipeDelimited', false, 'color', ARRAY, 'color=blue%7Cblack%7Cbrown'],
  ['query', 'pipeDelimited', false, 'color', OBJECT, 'color=R%7C100%7CG%7C200%7CB%7C150'],
  ['query', 'deepObject', true, 'color', OBJECT, 'color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150'],
]
