import type { Principal } from '#core/principal'
import type { Catalog } from '#core/tools/catalog'
import { toWireTool } from './codec-tool.ts'
import { isSameSignature } from './same-signature.ts'
import type { ToolTables } from './tool-table.ts'
import type { Revision } from './wire.ts'

interface ListedTool {
  readonly name: string
  readonly json: string
}

export interface ToolPage {
  readonly toolsJson: string
  readonly nextCursor: string | undefined
}

/** MCP-44: several clients read one page only, so it is a large one. */
const PAGE_SIZE = 1_000
const PAGE_CHARACTERS = 4 * 1_024 * 1_024

/** Lists as each revision shows them, built once per catalog; a page begins after a name, so changes do not shift it (MCP-43). */
export class ToolLists {
  readonly #tables: ToolTables
  readonly #pageSize: number
  readonly #sign: (text: string) => string
  readonly #byCatalog = new WeakMap<Catalog, Map<Revision, readonly ListedTool[]>>()
  readonly #whole = new WeakMap<readonly ListedTool[], string>()

  constructor(tables: ToolTables, sign: (text: string) => string, pageSize = PAGE_SIZE) {
    this.#tables = tables
    this.#sign = sign
    this.#pageSize = pageSize
  }

  /** `undefined` for a cursor that this principal was not given. */
  page(
    catalog: Catalog,
    asked: {
      readonly revision: Revision
      readonly principal: Principal
      readonly cursor: string | undefined
    },
  ): ToolPage | undefined {
    const after = asked.cursor === undefined ? '' : this.#openCursor(asked.cursor, asked.principal)
    if (after === undefined) return undefined
    const tools = this.#listed(catalog, asked.revision)
    const start = after === '' ? 0 : tools.findIndex(({ name }) => name > after)
    const end = start === -1 ? tools.length : this.#endOf(tools, start)
    const isWhole = start === 0 && end === tools.length
    const toolsJson = isWhole ? this.#wholeOf(tools) : join(tools.slice(start === -1 ? end : start, end))
    const last = tools[end - 1]
    const hasMore = end < tools.length && last !== undefined
    return { toolsJson, nextCursor: hasMore ? this.#cursor(last.name, asked.principal) : undefined }
  }

  #listed(catalog: Catalog, revision: Revision): readonly ListedTool[] {
    const known = this.#byCatalog.get(catalog) ?? new Map<Revision, readonly ListedTool[]>()
    this.#byCatalog.set(catalog, known)
    const made =
      known.get(revision) ??
      [...this.#tables.of(catalog).values()].map(({ name, tool }) => ({
        name,
        json: JSON.stringify(toWireTool(tool, name, revision)),
      }))
    known.set(revision, made)
    return made
  }

  #wholeOf(tools: readonly ListedTool[]): string {
    const known = this.#whole.get(tools) ?? join(tools)
    this.#whole.set(tools, known)
    return known
  }

  /** At least one tool, whatever its size. */
  #endOf(tools: readonly ListedTool[], start: number): number {
    let characters = 0
    for (let place = start; place < tools.length; place += 1) {
      characters += tools[place]?.json.length ?? 0
      if (place - start >= this.#pageSize || (characters > PAGE_CHARACTERS && place > start)) return place
    }
    return tools.length
  }

  /** Signed for its principal: neither guesses nor another tenant's cursors say anything. */
  #cursor(after: string, principal: Principal): string {
    return `${after}.${this.#signatureOf(after, principal)}`
  }

  #openCursor(cursor: string, principal: Principal): string | undefined {
    const end = cursor.lastIndexOf('.')
    if (end < 1) return undefined
    const after = cursor.slice(0, end)
    return isSameSignature(cursor.slice(end + 1), this.#signatureOf(after, principal)) ? after : undefined
  }

  #signatureOf(after: string, { tenant, id }: Principal): string {
    return this.#sign(JSON.stringify(['mcp cursor', tenant, id, after]))
  }
}

function join(tools: readonly ListedTool[]): string {
  return `[${tools.map(({ json }) => json).join(',')}]`
}
