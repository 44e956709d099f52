import type { OptionSpecs } from './arguments.ts'
import { STORE_OPTIONS } from './operator-store.ts'

/** How the commands of the vault find it: the store itself, or a server. */
export const SECRETS_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:secrets. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

export type SecretsOption = keyof typeof SECRETS_OPTIONS
