import { readFileSync } from 'node:fs'
import { Secret } from '#kernel/base/secret'
import { configError } from './load.ts'

/*
 * The environment variables that Collet reads.
 * The command line reads them once and passes them on.
 * Invariant: no other module reads `process.env`, and secrets are never printed.
 */

export interface Environment {
  /** `COLLET_KEY`, or the content of the file that `COLLET_KEY_FILE` names, undecoded; `decodeMasterKey` reads it. */
  readonly masterKey: Secret | undefined
  /** `COLLET_KEY_OLD`, or `COLLET_KEY_OLD_FILE`: the previous key, while `collet store rekey` changes it. */
  readonly oldMasterKey: Secret | undefined
  /** `COLLET_CONFIG`: the config file, unless `--config` names another. */
  readonly configFile: string | undefined
  readonly logLevel: string | undefined
  /** Whether `NO_COLOR` is set and not empty. */
  readonly noColor: boolean
  /** `COLLET_URL`: the server that client commands talk to. */
  readonly url: string | undefined
  /** `COLLET_API_KEY`: the key that client commands send. */
  readonly apiKey: Secret | undefined
  /** `COLLET_OPENTOOL_KEYS`: the keys of `collet opentool start`, joined with commas (OTS-76). */
  readonly opentoolKeys: Secret | undefined
  /** All variables, for programs that sources start; each program gets only those that its options name. A function, so that they are never printed. */
  variables(): Readonly<Record<string, string | undefined>>
}

export function readEnvironment(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): Environment {
  // An empty variable counts as unset.
  const text = (name: string): string | undefined => variables[name] || undefined
  const secret = (name: string): Secret | undefined => {
    const value = text(name)
    return value === undefined ? undefined : new Secret(value)
  }
  const secretOrFile = (name: string): Secret | undefined => {
    const file = text(`${name}_FILE`)
    if (file === undefined) return secret(name)
    if (text(name) === undefined) return readSecretFile(file, `${name}_FILE`)
    throw configError(`${name} is also set. Set only one of the two.`, { where: `${name}_FILE` })
  }
  return {
    // The key is read on demand, so that an unreadable file is reported like any other configuration problem.
    get masterKey() {
      return secretOrFile('COLLET_KEY')
    },
    get oldMasterKey() {
      const key = secretOrFile('COLLET_KEY_OLD')
      return key?.reveal() === '' ? undefined : key
    },
    configFile: text('COLLET_CONFIG'),
    logLevel: text('COLLET_LOG_LEVEL'),
    noColor: text('NO_COLOR') !== undefined,
    url: text('COLLET_URL'),
    apiKey: secret('COLLET_API_KEY'),
    opentoolKeys: secret('COLLET_OPENTOOL_KEYS'),
    variables: () => variables,
  }
}

/** A secret that Docker, Kubernetes or systemd mounts as a file. */
function readSecretFile(file: string, where: string): Secret {
  try {
    return new Secret(readFileSync(file, 'utf8').trim())
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    throw configError(`${file} cannot be read (${code}).`, { where })
  }
}

const KEY_BYTES = 32
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/

/** The keys that a store is opened with; without `COLLET_KEY` it reads its key file. */
export function decodeMasterKeys(environment: Pick<Environment, 'masterKey' | 'oldMasterKey'>) {
  return {
    masterKey: decodeMasterKey(environment.masterKey),
    oldMasterKey: decodeMasterKey(environment.oldMasterKey, 'COLLET_KEY_OLD'),
  }
}

/** The 32 bytes of `COLLET_KEY` (rule 14). Error messages state its length, never its text. */
export function decodeMasterKey(key: Secret | undefined, where = 'COLLET_KEY'): Uint8Array | undefined {
  if (key === undefined) return undefined
  const text = key.reveal().trim()
  const bytes = Buffer.from(text, 'base64')
  const isBase64 = BASE64.test(text)
  if (isBase64 && bytes.length === KEY_BYTES) return new Uint8Array(bytes)
  const found = isBase64 ? `the value decodes to ${bytes.length} bytes` : 'the value is not base64'
  const message = `expected ${KEY_BYTES} bytes in base64; ${found}. "collet keys generate" makes a key.`
  throw configError(message, { where })
}
