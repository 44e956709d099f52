const LARGEST_BYTES = 512 * 1_024
const PATIENCE_MS = 5_000

/** One JSON object from an issuer: no redirects, bounded in size and time. Throws on anything else. */
export async function fetchJson(url: string, send: typeof fetch): Promise<Readonly<Record<string, unknown>>> {
  const response = await send(url, {
    headers: { accept: 'application/json' },
    // Wherever it would lead, nobody configured that place.
    redirect: 'error',
    signal: AbortSignal.timeout(PATIENCE_MS),
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`${url} answered ${response.status}`)
  }
  const value: unknown = JSON.parse(await readText(response, url))
  if (isRecord(value)) return value
  throw new Error(`${url} gave no JSON object`)
}

async function readText(response: Response, url: string): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    // Leaving the loop cancels the body.
    if (size > LARGEST_BYTES) throw new Error(`${url} gave more than ${LARGEST_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
