import { z } from 'zod'
import type { Tool } from '#core/tool'
import { tool } from '#core/tools/define'
import { requireTools } from '#core/tools/prepare-tools'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Lookup } from '#egress/policy'

/** Nobody is granted it: only the seams ask with it. */
export const SEAM_SCOPE = 'collet-test-seams'
export const SAFE_FETCH_TOOL = 'Seam.SafeFetch'

/** What the suite wants fetched, as a tool: so each is a recorded call with its pair of events (OWP-83). */
export function safeFetchTool(): readonly Tool[] {
  const definition = tool({
    id: `${SAFE_FETCH_TOOL}@1.0.0`,
    catalogId: 'connector:collet.safe-fetch',
    description: 'Fetches a URL through the guard. For conformance tests only.',
    input: z.object({
      url: z.string().describe('An absolute URL.'),
      method: z.string().optional().describe('Its method.'),
      headers: z.record(z.string(), z.string()).optional().describe('Its headers.'),
      rebindTo: z.string().optional().describe('The address its name has when it is connected to.'),
    }),
    output: z.object({ status: z.number().describe('What was answered.') }),
    policy: {
      safetyTier: 'read',
      replay: 'non-deterministic',
      egress: 'safe-fetch',
      scopes: [SEAM_SCOPE],
      // No caller has it: `*` covers every scope, but no tenant is another one.
      tenants: [SEAM_SCOPE],
      timeoutMs: 35_000,
    },
    async run({ url, method = 'GET', headers = {}, rebindTo }, context) {
      const request = { method, headers, signal: context.signal }
      const reply = await (rebindTo === undefined
        ? context.fetch(url, request)
        : fetchRebound(rebindTo, url, request))
      await reply.body?.cancel()
      return { status: reply.status }
    },
  })
  return requireTools([definition], { source: 'connector' })
}

/** The same guard, with a name server that has changed its mind. */
async function fetchRebound(address: string, url: string, request: RequestInit): Promise<Response> {
  const lookup: Lookup = async () => [address]
  const rebound = createGuardedFetch({ lookup })
  try {
    return await rebound(url, request)
  } finally {
    await rebound.close()
  }
}
