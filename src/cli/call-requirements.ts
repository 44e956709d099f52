import type { RequirementResolvers } from '#client/index'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CliIo } from './cli-io.ts'
import { readAll } from './read-all.ts'
import { UsageError } from './usage-error.ts'

/** What a tool may need beyond its input. */
export const REQUIREMENT_OPTIONS = {
  secret: {
    value: 'ID=VALUE',
    many: true,
    help: 'A secret the tool needs; ID=- reads it from stdin, which other users of this machine cannot see.',
  },
  token: {
    value: 'ID=VALUE',
    many: true,
    help: 'A token for an authorization the tool needs; ID=- reads it from stdin.',
  },
  user: { value: 'ID', help: 'Whom the call is for.' },
} as const satisfies OptionSpecs

const FROM_STDIN = '-'

/** Reads `--secret` and `--token`. Problems name the option and never repeat what was written: it may be the secret. */
export async function readRequirements(
  args: Arguments<'secret' | 'token'>,
  stdin: CliIo['stdin'],
): Promise<RequirementResolvers> {
  const given = { secret: readPairs(args, 'secret'), token: readPairs(args, 'token') }
  const hidden = [...given.secret.values(), ...given.token.values(), args.positionals[1]]
  const places = hidden.filter((text) => text === FROM_STDIN).length
  if (places > 1) throw new UsageError('Only one of the input, --secret and --token can come from stdin.')
  const isHere = args.positionals[1] !== FROM_STDIN && places === 1
  const typed = isHere ? (await readAll(stdin)).replace(/\r?\n$/, '') : ''
  const filledIn = (text: string | undefined): string | undefined => (text === FROM_STDIN ? typed : text)
  return {
    secrets: (id) => filledIn(given.secret.get(id)),
    authorization: (id) => filledIn(given.token.get(id)),
  }
}

function readPairs(
  args: Arguments<'secret' | 'token'>,
  name: 'secret' | 'token',
): ReadonlyMap<string, string> {
  return new Map(
    args.texts(name).map((text) => {
      const at = text.indexOf('=')
      if (at > 0 && at < text.length - 1) return [text.slice(0, at), text.slice(at + 1)]
      throw new UsageError(`--${name} expects ID=VALUE, or ID=- to read the value from stdin.`)
    }),
  )
}
