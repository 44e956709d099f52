import { z } from 'zod'
import { DISCOVERIES } from '#kernel/tool/toolsets'
import type { Protocol, SectionSettings, ServedProtocol } from '#protocols/protocol'
import { mcpServices } from './exchange.ts'
import { MCP_PATH } from './wire.ts'

/*
 * Registers MCP with the server: its config section and root path. `protocols/list.ts` imports it.
 * Invariant: the routes are imported only when the protocol is served.
 */

const TEXT = z.string().min(1)
const HOUR_MS = 3_600_000

const SETTINGS = {
  /** Serve `/mcp`. Default true. */
  enabled: z.boolean().default(true),
  /** Name that the server reports to clients. Default `collet`. */
  name: TEXT.default('collet'),
  /** Text for models about the server as a whole. Default none. */
  instructions: TEXT.optional(),
  /** Tools on one page of `tools/list`; many clients read only the first page. Default 1 000. */
  pageSize: z.int().min(1).max(10_000).default(1_000),
  /** `search`: `tools/list` has only `search_tools`, `describe_tools`, `call_tool` and the favourites. Default `list`. */
  discovery: z.enum(DISCOVERIES).optional(),
  /** Names and patterns of tools that are listed with `search` too. Default none. */
  favourites: z.array(TEXT).optional(),
  /** A call becomes a task after this time if its client supports tasks. Default 800. */
  taskAfterMs: z.int().min(0).max(600_000).default(800),
  /** List tools with short descriptions and schemas, which name what was left out. Default false. */
  compact: z.boolean().optional(),
}

/** The Model Context Protocol over HTTP; `stdio.ts` serves it on a pair of streams. */
export const mcp = {
  settings: SETTINGS,
  root: MCP_PATH,
  headers: { sent: [], read: [] },
  async serve({ mcp: settings, calls, results }, services): Promise<ServedProtocol> {
    if (!settings.enabled) return { routes: [] }
    const [{ serveMcp }, { openMethods }, { openSessionRevisions }] = await Promise.all([
      import('./http.ts'),
      import('./methods.ts'),
      import('./revision-2025/http.ts'),
    ])
    const methods = openMethods(
      mcpServices(
        { ...settings, modelBytes: results?.modelBytes, resultsMs: calls.retentionHours * HOUR_MS },
        services,
      ),
    )
    return serveMcp(methods, openSessionRevisions(methods))
  },
} satisfies Protocol<{
  readonly mcp: SectionSettings<typeof SETTINGS>
  readonly calls: { readonly retentionHours: number }
  readonly results?: { readonly modelBytes: number }
}>
