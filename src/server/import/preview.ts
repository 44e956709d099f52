import { isToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { Discovery, SourceServices } from '#core/ports/source'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import { openSource, SOURCE_OPTIONS } from '#sources/source-types'

/** Descriptions of large services are larger than what one call may bring back. */
const MOST_DESCRIPTION_BYTES = 64 * 1024 * 1024

/**
 * The way out of an import. The host that the operator typed may be local; where it leads is guarded all the same, so
 * that a description cannot make us ask around in here (rule 33).
 */
export function createImportFetch(typed: string | undefined): GuardedFetch {
  const url = typed === undefined ? null : URL.parse(typed)
  return createGuardedFetch({
    allow: url === null ? [] : [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`],
    maxResponseBytes: MOST_DESCRIPTION_BYTES,
  })
}

type Preview =
  | { readonly kind: 'seen'; readonly discovery: Discovery; readonly reason?: string }
  /** Its options are wrong. */
  | { readonly kind: 'refused'; readonly problems: readonly string[] }
  | { readonly kind: 'failed'; readonly why: string }

/** Opens a source as a server would, reads what it offers, and closes it. */
export async function previewSource(
  key: string,
  options: JsonObject,
  { services, signal }: { readonly services: SourceServices; readonly signal: AbortSignal },
): Promise<Preview> {
  const parsed = SOURCE_OPTIONS.safeParse(options)
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
    return { kind: 'refused', problems }
  }
  const source = await openSource(key, parsed.data, services)
  try {
    const discovery = await source.discover(signal)
    const { reason } = source.health()
    return { kind: 'seen', discovery, ...(reason === undefined ? {} : { reason }) }
  } catch (error) {
    signal.throwIfAborted()
    return { kind: 'failed', why: reasonOf(error) }
  } finally {
    await source.close()
  }
}

/** For an operator, so with what is for developers. */
function reasonOf(error: unknown): string {
  if (isToolError(error)) {
    const { message, developerMessage } = error
    return developerMessage === undefined || developerMessage === message
      ? message
      : `${message} (${developerMessage})`
  }
  return error instanceof Error ? error.message : 'It cannot be asked.'
}
