import type { Documents } from './documents.ts'
import {
  entriesOf,
  isLocatedObject,
  itemsOf,
  type Located,
  type LocatedObject,
  memberOf,
  textOf,
} from './located.ts'
import { type Encoding, type Place, STYLES, type Style } from './operation.ts'

const PLACES: ReadonlySet<string> = new Set(['path', 'query', 'header', 'cookie'] satisfies Place[])
const KNOWN_STYLES: ReadonlySet<string> = new Set(STYLES)
const DEFAULT_STYLE = {
  path: 'simple',
  query: 'form',
  header: 'simple',
  cookie: 'form',
} as const satisfies Record<Place, Style>

/** The parameters of an operation: its own, then those of its path that it does not replace. */
export function declaredParameters(
  documents: Documents,
  { pathItem, operation }: { readonly pathItem: Located; readonly operation: Located },
): readonly LocatedObject[] {
  const found = new Map<string, LocatedObject>()
  for (const owner of [pathItem, operation]) {
    const list = memberOf(owner, 'parameters')
    for (const value of itemsOf(list?.value)) {
      const parameter = documents.resolve({ value, document: list?.document ?? owner.document })
      if (isLocatedObject(parameter)) found.set(`${parameter.value.in} ${parameter.value.name}`, parameter)
    }
  }
  return [...found.values()]
}

export function isPlace(value: unknown): value is Place {
  return typeof value === 'string' && PLACES.has(value)
}

/** OpenAPI 3: style and explode, or a media type. */
export function parameterEncoding(parameter: LocatedObject, place: Place): Encoding {
  const [content] = entriesOf(memberOf(parameter, 'content')?.value)
  const { style, explode, allowReserved } = parameter.value
  return {
    ...encodingOf({ style, explode, allowReserved }, DEFAULT_STYLE[place]),
    ...(content === undefined ? {} : { mediaType: content[0] }),
  }
}

/** A style without `explode` explodes only if it is `form`; what cannot be read counts as not written. */
export function encodingOf(
  written: { readonly style?: unknown; readonly explode?: unknown; readonly allowReserved?: unknown },
  usual: Style,
): Encoding {
  const style = isStyle(written.style) ? written.style : usual
  const explode =
    typeof written.explode === 'boolean' ? written.explode : style === 'form' || style === 'deepObject'
  return { style, explode, allowReserved: written.allowReserved === true }
}

function isStyle(value: unknown): value is Style {
  return typeof value === 'string' && KNOWN_STYLES.has(value)
}

/** The schema of a parameter, written directly or under its media type. */
export function parameterSchema(documents: Documents, parameter: LocatedObject): Located | undefined {
  const direct = memberOf(parameter, 'schema')
  if (direct !== undefined) return direct
  const content = memberOf(parameter, 'content')
  const [first] = entriesOf(content?.value)
  if (content === undefined || first === undefined) return undefined
  const media = documents.resolve({ value: first[1], document: content.document })
  return media === undefined ? undefined : memberOf(media, 'schema')
}

export function describeParameter({ value }: LocatedObject): string | undefined {
  const text = textOf(value.description)
  return value.deprecated === true ? ['Deprecated.', text].filter(Boolean).join(' ') : text
}
