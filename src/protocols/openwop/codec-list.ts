import { fault } from '#core/errors'
import type { SourceKind, Tool } from '#core/tool'
import { toCompactDescriptor } from './codec-compact.ts'
import { toDescriptor } from './codec-descriptor.ts'
import { isSourceKind, SOURCE_KINDS } from './wire.ts'

/** `standard` is a bare array, `envelope` the same under `tools`, `compact` is always under `tools` (C1). */
export type ListView = 'standard' | 'envelope' | 'compact'

export interface ListForm {
  readonly view: ListView
  /** Only tools of this source; `undefined` = all. */
  readonly source: SourceKind | undefined
}

export interface DecodeOptions {
  /** Whether `?view=compact` is offered; else it is any unknown parameter (OWP-26). */
  readonly compactView: boolean
}

/** Every form there is: views × sources, and no source. */
export const MOST_FORMS = 3 * (SOURCE_KINDS.length + 1)

/** Unknown parameters and views are ignored (C11, OWP-19); a source nobody can have is refused. */
export function decodeListForm(query: URLSearchParams, options: DecodeOptions): ListForm {
  const source = decodeSource(query)
  if (isCompact(query, options)) return { view: 'compact', source }
  return { view: query.get('envelope') === '1' ? 'envelope' : 'standard', source }
}

export function isCompact(query: URLSearchParams, { compactView }: DecodeOptions): boolean {
  return compactView && query.get('view') === 'compact'
}

function decodeSource(query: URLSearchParams): SourceKind | undefined {
  const [source, ...others] = query.getAll('source')
  if (source === undefined) return undefined
  if (isSourceKind(source) && others.every((other) => other === source)) return source
  throw fault('request_invalid', `"source" must be one of ${SOURCE_KINDS.join(', ')}, and given once.`)
}

/** `tools` come sorted. */
export function encodeList({ view, source }: ListForm, tools: readonly Tool[]): string {
  const shown = source === undefined ? tools : tools.filter((tool) => tool.source === source)
  const encode = view === 'compact' ? encodeCompact : encodeStandard
  const array = `[${shown.map(encode).join(',')}]`
  return view === 'standard' ? array : `{"tools":${array}}`
}

export function encodeStandard(tool: Tool): string {
  return JSON.stringify(toDescriptor(tool))
}

export function encodeCompact(tool: Tool): string {
  return JSON.stringify(toCompactDescriptor(tool))
}
