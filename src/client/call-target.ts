import { LATEST, parseToolId, parseToolName } from '#core/ids'
import {
  type ApiKeyHeader,
  type CallPath,
  pinnedWire,
  type RemoteTool,
  type ServerWire,
  versionHeaders,
} from '#protocols/otc/codec-client'
import { configFailure } from './call-failure.ts'
import type { CallOptions } from './call-run.ts'
import type { ClientSettings } from './client-options.ts'
import type { ToolDirectory } from './tool-directory.ts'

/** What all calls of one client share. */
export interface CallSession {
  readonly settings: ClientSettings
  readonly directory: ToolDirectory
  /** The call path that worked last (C-01). */
  readonly route: { path: CallPath | undefined }
}

/** What is called, and in which words. */
export interface CallTarget {
  readonly toolId: string
  /** `undefined` when the tool is not listed; the server then decides. */
  readonly tool: RemoteTool | undefined
  readonly wire: ServerWire
  headers(): Promise<Readonly<Record<string, string>>>
}

/** A pinned dialect needs no list, unless there is something to resolve (§3.2 item 5). */
export async function findTarget(
  session: CallSession,
  tool: string | RemoteTool,
  { callId, signal }: Pick<CallOptions, 'callId' | 'signal'>,
): Promise<CallTarget> {
  const { dialect } = session.settings
  const asked = typeof tool === 'string' ? tool : tool.id
  if (typeof asked !== 'string' || asked === '') throw configFailure('Name the tool to call by its id.')
  const given = typeof tool === 'string' ? undefined : tool
  if (dialect !== undefined && (given !== undefined || !hasResolvers(session.settings))) {
    return targetOf(session, asked, given, pinnedWire(dialect))
  }
  const found = given ?? (await session.directory.find(asked, signal))
  const { wire, keyHeader } = await session.directory.current(signal)
  const isRepeatable = callId !== undefined && found?.facts !== undefined
  const toolId = isRepeatable ? anyVersionOf(found.id, asked) : (found?.id ?? asked)
  return targetOf(session, toolId, found, wire, keyHeader)
}

/**
 * A call under its caller's own id may be recorded already, of an older version than the newest one listed. Servers of
 * this package find it if no version is named (rule 5); to all others full ids are sent (C-15).
 */
function anyVersionOf(id: string, asked: string): string {
  return parseToolName(asked)?.version === LATEST ? (parseToolId(id)?.base ?? id) : id
}

function targetOf(
  { settings }: CallSession,
  toolId: string,
  tool: RemoteTool | undefined,
  wire: ServerWire,
  keyHeader?: ApiKeyHeader,
): CallTarget {
  const headers = async () => ({
    ...versionHeaders(wire.dialect),
    ...(await settings.credentials.headers(wire.dialect, keyHeader)),
  })
  return { toolId, tool, wire, headers }
}

function hasResolvers({ requirements }: ClientSettings): boolean {
  return (requirements.authorization ?? requirements.secrets ?? requirements.userId) !== undefined
}
