import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { UsageError } from './usage-error.ts'

const DEFAULT_URL = 'http://127.0.0.1:4100'

/** How client commands are told which server, and as whom. */
export const SERVER_OPTIONS = {
  url: { value: 'U', help: `Server to talk to. Default: COLLET_URL, or ${DEFAULT_URL}.` },
  key: {
    value: 'K',
    help: 'API key. Default: COLLET_API_KEY, which other users of this machine cannot see.',
  },
} as const satisfies OptionSpecs

export interface ServerAddress {
  /** Without a trailing slash. */
  readonly url: string
  readonly apiKey: string | undefined
}

export function readServerAddress(
  args: Arguments<'url' | 'key'>,
  { environment }: CommandContext,
): ServerAddress {
  const text = args.text('url') ?? environment.url ?? DEFAULT_URL
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new UsageError(`--url expects an http or https address, for example ${DEFAULT_URL}; got "${text}".`)
  }
  return { url: url.href.replace(/\/+$/, ''), apiKey: args.text('key') ?? environment.apiKey?.reveal() }
}
