import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { ToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import {
  type AuthorizationServerOptions,
  CLIENT_SECRET,
  startAuthorizationServer,
  type TestAuthorizationServer,
} from './authorization-server.ts'

export const AGENT = 'key-of-the-agent-0123456789abcdefghij'
export const OTHER = 'key-of-another-0123456789abcdefghijkl'
export const ADMIN = 'key-of-the-admin-0123456789abcdefghij'

/** The credentials that a tool received in one call. */
export interface Given {
  readonly tool: string
  readonly userId: string | undefined
  readonly token: string
}

export interface StageOptions extends AuthorizationServerOptions {
  readonly signIn?: boolean
  readonly changes?: Partial<Settings>
  /** Server and data folder of an earlier stage, for a restart. */
  readonly again?: { readonly settings: Settings; readonly provider: TestAuthorizationServer }
}

export type Stage = Awaited<ReturnType<typeof openStage>>

/** The complete server with one provider and an optional sign-in service; its log lines are kept. */
export async function openStage(options: StageOptions = {}) {
  const provider = options.again?.provider ?? (await startAuthorizationServer(options))
  const signIn = options.signIn === true ? await startAuthorizationServer() : undefined
  const given: Given[] = []
  const logged: string[] = []
  const settingsOf = options.changes?.store === undefined ? sqliteSettings : testSettings
  const settings =
    options.again?.settings ?? settingsOf({ ...stageSettings(provider, signIn), ...options.changes })
  const served = { ...settings, tools: mailTools(given) }
  const log = createLog('debug', { write: (line: string) => void logged.push(line) })
  const server = await startServer(served, { graceMs: 0, log })
  const call = async (asked: Asked = {}) => await askOtc(server.url, asked)
  return {
    provider,
    signIn,
    server,
    settings,
    given,
    logged,
    url: server.url,
    call,
    /** Calls a tool and returns the single challenge in its answer. */
    async challenge(asked: Asked = {}) {
      const answer = await call(asked)
      const [found] = answer.json.missing_requirements?.authorization ?? []
      if (found === undefined)
        throw new Error(`no challenge: ${answer.status} ${JSON.stringify(answer.json)}`)
      return { id: String(found.id), url: String(found.url), checkUrl: String(found.check_url) }
    },
    async status(checkUrl: string): Promise<string> {
      const answer: { readonly status: string } = JSON.parse(await (await fetch(checkUrl)).text())
      return answer.status
    },
    async closeServer() {
      await server.close()
    },
    async [Symbol.asyncDispose]() {
      await server.close()
      await provider[Symbol.asyncDispose]()
      await signIn?.[Symbol.asyncDispose]()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    },
  }
}

export interface Asked {
  readonly key?: string
  readonly userId?: string
  readonly callId?: string
  readonly tool?: string
  readonly token?: string
  readonly input?: object
  readonly run?: string
}

export async function askOtc(url: string, asked: Asked) {
  const { key = AGENT, userId, callId, tool: name = 'Mail.Read', token, input = {}, run } = asked
  const context = {
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(token === undefined ? {} : { authorization: [{ id: 'mailer', token }] }),
  }
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(run === undefined ? {} : { 'collet-run': run }),
    },
    body: JSON.stringify({
      request: { tool_id: name, input, context, ...(callId === undefined ? {} : { call_id: callId }) },
    }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = await response.json()
  return { status: response.status, headers: response.headers, json, value: json.result?.value ?? json.value }
}

function mailTools(given: Given[]) {
  const read = (name: string, scopes: readonly string[], act: (token: Secret) => string = () => 'mail') =>
    tool({
      id: `Mail.${name}@1.0.0`,
      description: 'Looks into a mailbox.',
      input: { type: 'object' },
      output: { type: 'string' },
      policy: { safetyTier: 'read' },
      requirements: { authorization: [{ id: 'mailer', oauth2: { scopes: [...scopes] } }] },
      run: (_input, context) => {
        const token = context.token('mailer')
        given.push({ tool: name, userId: context.userId, token: token.reveal() })
        context.log.info({ heard: token.reveal() }, `used ${token.reveal()}`)
        return act(token)
      },
    })
  return requireTools([
    read('Read', ['mail.read']),
    read('Send', ['mail.send']),
    read('Fail', ['mail.read'], (token) => {
      throw new ToolError(`the upstream said: bad token ${token.reveal()}`, {
        developerMessage: token.reveal(),
      })
    }),
    read('Throw', ['mail.read'], (token) => {
      throw new Error(`GET /?access_token=${encodeURIComponent(token.reveal())}`)
    }),
    tool({
      id: 'Text.Secret@1.0.0',
      description: 'Needs a secret.',
      input: { type: 'object' },
      output: { type: 'string' },
      policy: { safetyTier: 'write' },
      requirements: { secrets: [{ id: 'API_KEY' }] },
      run: (_input, context) => {
        const secret = context.secret('API_KEY')
        given.push({ tool: 'Secret', userId: context.userId, token: secret.reveal() })
        context.log.warn(`using ${secret.reveal()}`)
        return 'done'
      },
    }),
  ])
}

function stageSettings(
  provider: TestAuthorizationServer,
  signIn: TestAuthorizationServer | undefined,
): Partial<Settings> {
  const client = {
    clientId: 'collet',
    clientSecret: new Secret(CLIENT_SECRET),
    clientAuth: 'basic',
    authorizationEndpoint: undefined,
    tokenEndpoint: undefined,
    revocationEndpoint: undefined,
  } as const
  const keySettings = (id: string, key: string, scopes: readonly string[]) => ({
    id,
    key: new Secret(key),
    tenant: 'default',
    scopes,
  })
  return {
    auth: {
      apiKeys: [
        keySettings('agent', AGENT, ['users:assert']),
        keySettings('other', OTHER, []),
        keySettings('admin', ADMIN, ['admin:secrets', 'metrics:read']),
      ],
      jwt: undefined,
    },
    oauth: {
      providers: {
        mailer: {
          ...client,
          issuer: provider.issuer,
          scopes: undefined,
          alwaysScopes: ['openid', 'offline_access'],
          parameters: { prompt: 'consent' },
        },
      },
      signIn:
        signIn === undefined
          ? undefined
          : {
              ...client,
              issuer: signIn.issuer,
              scopes: ['openid'],
              userClaim: 'sub',
              owners: { 'key:agent': ['boss'] },
            },
      allowUnboundConsent: false,
    },
  }
}
