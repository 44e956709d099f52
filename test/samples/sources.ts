import type { JsonObject } from '#kernel/base/json'
import type { Discovery, Invocation, OfferedTool, Source } from '#sources/kit/source'

export function sampleDiscovery(
  tools: readonly OfferedTool[],
  identity: JsonObject = { origin: 'https://tools.example' },
): Discovery {
  return { identity, tools, warnings: [] }
}

/** A source that records its invocations and returns their inputs. */
export function sampleSource(other: Partial<Source> = {}): Source & { readonly invoked: Invocation[] } {
  const invoked: Invocation[] = []
  return {
    key: 'files',
    type: 'sample',
    kind: 'mcp',
    discover: () => Promise.resolve(sampleDiscovery([])),
    invoke: (invocation) => {
      invoked.push(invocation)
      return Promise.resolve(invocation.input)
    },
    health: () => ({ state: 'ready' }),
    close: () => Promise.resolve(),
    ...other,
    invoked,
  }
}
