import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CLIENT_SECRET, type TestAuthorizationServer } from '../oauth/authorization-server.ts'
import { runCollet, type ServerProcess, startCollet } from './server-process.ts'

/** Keys of the callers and the two approvers of these tests are derived from their names. */
export function apiKeyOf(name: string): string {
  return createHash('sha256').update(`key of ${name}`).digest('hex')
}

/** Every effect is a line outside the store. */
function configOf(callers: readonly string[], issuer: string): string {
  const keys = [
    ...callers.map((id) => ({ id, key: apiKeyOf(id) })),
    ...['bob', 'eve'].map((id) => ({ id, key: apiKeyOf(id), scopes: ['approvals:respond'] })),
  ]
  const client = { issuer, clientId: 'collet', clientSecret: CLIENT_SECRET }
  const owners = Object.fromEntries(callers.map((id) => [`key:${id}`, ['ann']]))
  const mailer = { ...client, alwaysScopes: ['openid', 'offline_access'], parameters: { prompt: 'consent' } }
  return `
import { appendFileSync } from 'node:fs'

const act = (tool) => ({ key }, context) => {
  appendFileSync(new URL('effects.log', import.meta.url), key + '\\n')
  return { tool, key, withToken: tool.startsWith('Mail') && context.token('mailer').reveal().length > 10 }
}
const base = { [Symbol.for('collet.tool')]: true, description: 'Has an effect.', input: { type: 'object' }, output: {} }
const consent = { requirements: { authorization: [{ id: 'mailer', oauth2: { scopes: ['mail.send'] } }] } }
const write = { safetyTier: 'write', replay: 'non-deterministic' }
export default {
  auth: { apiKeys: ${JSON.stringify(keys)} },
  oauth: ${JSON.stringify({ providers: { mailer }, signIn: { ...client, owners } })},
  approvals: { perTool: { 'Bank.Settle': { quorum: 2 } } },
  tools: [
    { ...base, ...consent, id: 'Mail.Send@1.0.0', policy: write, run: act('Mail.Send') },
    { ...base, id: 'Bank.Pay@1.0.0', policy: { ...write, approval: 'always' }, run: act('Bank.Pay') },
    { ...base, id: 'Bank.Settle@1.0.0', policy: { ...write, approval: 'always' }, run: act('Bank.Settle') },
    { ...base, ...consent, id: 'Mail.Pay@1.0.0', policy: { ...write, approval: 'always' }, run: act('Mail.Pay') },
  ],
}
`
}

/** A project folder and its server, which always restarts on the same port and file. */
export class TrustProject {
  readonly folder = mkdtempSync(join(tmpdir(), 'collet-trust-'))
  #server: ServerProcess | undefined

  constructor(callers: readonly string[], { issuer }: Pick<TestAuthorizationServer, 'issuer'>) {
    writeFileSync(join(this.folder, 'collet.config.mjs'), configOf(callers, issuer))
  }

  get url(): string {
    return this.#server?.url ?? ''
  }

  async start(): Promise<void> {
    const port = this.url === '' ? '0' : new URL(this.url).port
    this.#server = await startCollet(['serve', '--port', port], { cwd: this.folder })
  }

  /** Sends SIGKILL and starts the server again. */
  async restart(): Promise<void> {
    await this.#server?.stop('SIGKILL')
    await this.start()
  }

  /** Runs a command directly on the store. */
  async collet(...argv: readonly string[]) {
    return await runCollet(argv, { cwd: this.folder })
  }

  /** How often a call had its effect. */
  effectsOf(key: string): number {
    const file = join(this.folder, 'effects.log')
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
    return lines.filter((line) => line === key).length
  }

  async remove(): Promise<void> {
    await this.#server?.stop('SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
  }
}
