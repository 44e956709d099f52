import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { COMMON_OPTIONS_WITH_EGRESS } from '#sources/common/options'

/*
 * The options of a source with `type: 'mcp'`. `source-types.ts` adds them to the config schema; editors show the comments of the
 * options as hover texts.
 * Invariant: options cannot set a header that the MCP client writes itself.
 */

const MIB = 1_048_576
const DAY_MS = 24 * 3_600_000
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Hosts for which plain http stays on this machine. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/
const OWN_HEADERS = /^(?:mcp-.*|accept|content-type|content-length|host|connection|transfer-encoding)$/i

/** True for a header that the MCP client sets itself, so that options must not. */
export function isOwnHeader(name: string): boolean {
  return OWN_HEADERS.test(name)
}

const SECRET = z.string('write a string').transform((text) => new Secret(text))

const MCP_TRUST = ['nothing', 'annotations'] as const

/** Options of `sources.<key>` with `type: 'mcp'`: any MCP server, by a command (stdio) or a URL (Streamable HTTP). */
export const MCP_OPTIONS = z
  .strictObject({
    type: z.literal('mcp'),
    ...COMMON_OPTIONS_WITH_EGRESS,
    /** A program that speaks MCP on its standard input and output; started without a shell. */
    command: z.string().min(1, 'write the program to start').optional(),
    args: z.array(z.string()).default([]),
    /** Further environment variables of the program. It inherits HOME, LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR, USER and the variables for proxies, certificates and registries. */
    env: z.record(z.string().min(1), SECRET).default({}),
    /** Working folder of the program, relative to the folder of the configuration, which is the default. */
    cwd: z.string().min(1).optional(),
    url: z
      .url({ protocol: /^https?$/, error: 'write an http or https URL, for example https://host/mcp' })
      .refine((text) => {
        const url = URL.parse(text)
        return url === null || (url.username === '' && url.password === '' && url.hash === '')
      }, 'write no user, password or fragment into it; credentials go into `headers`')
      .optional(),
    /** Headers of every request to `url`, including those that list tools. They usually contain the operator's credentials. */
    headers: z.record(z.string(), SECRET).default({}),
    /** Calls need the caller's token from a provider, which is sent to `url`. */
    authorization: z
      .strictObject({
        /** A provider of `oauth.providers`. Default: the one with the key of this source; without such an entry, the provider that `url` names. */
        provider: z.string().min(1, 'write the name of a provider of `oauth.providers`').default(''),
        scopes: z.array(z.string().min(1)).default([]),
        /** The principal whose consent is used to list the tools, such as `key:ops`; for servers that list only with a token. */
        listAs: z.string().min(1).optional(),
      })
      .optional(),
    /** Headers whose value is a secret of the caller: `{ 'x-api-key': 'NAME_OF_THE_SECRET' }`. */
    secretHeaders: z.record(z.string(), z.string().min(1)).default({}),
    /**
     * With `annotations`, the server's statements about its tools are trusted: read-only tools are `read`, and tools whose repetition
     * changes nothing are `idempotent`. `policy` and `tools` take precedence.
     */
    trust: z.enum(MCP_TRUST).default('nothing'),
    /** `shared`: all callers use the same connections. Default: `shared` only if the server keeps no state per connection. */
    connection: z.enum(['shared', 'per-principal']).optional(),
    /** Offers openwop sessions, each with its own connection. Default: true for commands. */
    stateful: z.boolean().optional(),
    /** `auto` asks the server; `legacy` uses `initialize` without asking; `modern` accepts only 2026-07-28. */
    revision: z.enum(['auto', 'legacy', 'modern']).default('auto'),
    /** Maximum number of connections (for commands: processes). */
    maxConnections: z.int().min(1).max(1000).default(16),
    /** Maximum number of concurrent calls on one connection. */
    callsAtOnce: z.int().min(1).max(10_000).default(64),
    /** A connection without calls is closed after this time. */
    idleMs: z.int().min(100).max(DAY_MS).default(300_000),
    connectTimeoutMs: z.int().min(1).max(600_000).default(30_000),
    discoverTimeoutMs: z.int().min(1).max(600_000).default(60_000),
    /** Maximum size of a message of a command. */
    maxMessageBytes: z
      .int()
      .min(1024)
      .max(1024 * MIB)
      .default(10 * MIB),
  })
  .superRefine((options, context) => {
    const report = (path: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (options.command === undefined && options.url === undefined)
      report('command', 'write `command` (a program) or `url` (a server) of the MCP server')
    if (options.command !== undefined) {
      if (options.url !== undefined) report('url', 'write `command` or `url`, not both')
      for (const name of ['headers', 'secretHeaders', 'authorization'] as const)
        if (Object.keys(options[name] ?? {}).length > 0)
          report(name, 'is for a `url`; a command gets its credentials by `env`')
    } else {
      const policies = [options.policy, ...Object.values(options.tools)]
      if (policies.some((policy) => policy?.egress === 'none'))
        report(
          'policy',
          'egress `none` is only for a `command`, because every call of a `url` uses the network',
        )
      if (options.args.length > 0) report('args', 'is for a `command`')
      if (options.cwd !== undefined) report('cwd', 'is for a `command`')
      if (Object.keys(options.env).length > 0) report('env', 'is for a `command`; write `headers`')
    }
    for (const name of ['headers', 'secretHeaders'] as const)
      for (const header of Object.keys(options[name])) {
        if (!HEADER_NAME.test(header)) report(name, `"${header}" is not the name of an HTTP header`)
        if (isOwnHeader(header)) report(name, `${header} is set by the MCP client itself; leave it out`)
      }
    const { protocol = 'https:', hostname = '' } = URL.parse(options.url ?? '') ?? {}
    if (options.authorization?.provider === '' && protocol !== 'https:' && !LOOPBACK.test(hostname))
      report('authorization', 'needs an https URL: tokens over plain http could be read')
    const hasOwnCredentials =
      options.authorization !== undefined || Object.keys(options.secretHeaders).length > 0
    if (options.connection === 'shared' && hasOwnCredentials)
      report('connection', 'callers with their own credentials cannot share a connection; leave it out')
  })

export type McpOptions = z.output<typeof MCP_OPTIONS>
