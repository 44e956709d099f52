import { resolve } from 'node:path'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { shownAddress } from '#sources/common/shown-address'
import type { McpOptions } from './options.ts'

/** Where the upstream is. */
export type Endpoint =
  | { readonly transport: 'http'; readonly url: string }
  | {
      readonly transport: 'stdio'
      readonly command: string
      readonly args: readonly string[]
      readonly cwd: string
    }

export function endpointOf({ command, args, cwd, url }: McpOptions, folder: string): Endpoint {
  if (command !== undefined)
    return { transport: 'stdio', command, args, cwd: cwd === undefined ? folder : resolve(folder, cwd) }
  if (url === undefined) throw new TypeError('the options of an MCP source name a command or a URL')
  return { transport: 'http', url: new URL(url).href }
}

/** The part of an endpoint that a pin holds; not the folder, which differs between machines, and no key of its query (rule 32). */
export function endpointJson(endpoint: Endpoint): JsonObject {
  return endpoint.transport === 'http'
    ? { transport: 'http', url: shownAddress(endpoint.url) }
    : { transport: 'stdio', command: endpoint.command, args: [...endpoint.args] }
}

/** Whether an accepted definition was offered by the upstream that is configured now. */
export function isAt(binding: JsonObject, endpoint: Endpoint): boolean {
  const { endpoint: accepted } = binding
  return JSON.stringify(sorted(accepted)) === JSON.stringify(sorted(endpointJson(endpoint)))
}

/** A store may give members back in another order. */
function sorted(value: JsonValue | undefined): JsonValue {
  if (!isJsonObject(value)) return value ?? null
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
}
