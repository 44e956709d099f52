import { afterEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { ANONYMOUS } from '#kernel/base/principal'
import { chunks, FakeIo } from '../cli/fake-io.ts'
import { Browser } from '../oauth/browser.ts'
import { askOtc, OTHER, openStage, type Stage } from '../oauth/oauth-stage.ts'

const OPEN = { auth: { apiKeys: [], jwt: undefined } }
const VALUE = 'sms-key-8c1f-0123456789'

/** Runs a command in the folder of the stage, whose config has no credential either. */
async function collet(stage: Stage, argv: readonly string[], stdin = '') {
  const io = new FakeIo(REAL_SERVICES, { stdin: chunks(stdin), workingFolder: stage.settings.dataFolder })
  const code = await io.run(...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

const stages: Stage[] = []
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage[Symbol.asyncDispose]()
})

async function openServer(): Promise<Stage> {
  const stage = await openStage({ changes: OPEN })
  stages.push(stage)
  return stage
}

describe('a server without keys, on this machine (rule 28)', () => {
  it.each([undefined, 'user_123'])(
    'asks the local user for consent, and the repeated call runs; user %s',
    async (userId) => {
      const stage = await openServer()
      const asked = { callId: 'c1', ...(userId === undefined ? {} : { userId }) }
      const refused = await stage.call(asked)
      expect(refused.status).toBe(400)
      expect(refused.json.message).toBe('Mail_Read needs authorization from mailer. Nothing was run.')
      const [challenge] = refused.json.missing_requirements.authorization
      const page = await new Browser().visit(challenge.url, { login: 'ann' })
      expect(page.text).toContain('has been granted')
      expect(await stage.status(challenge.check_url)).toBe('completed')
      expect((await stage.call(asked)).value).toBe('mail')
      expect(stage.given.at(-1)?.userId).toBe(userId)
      // Rule 24: neither gets the credential of the other.
      const other = userId === undefined ? { userId: 'user_123' } : {}
      expect((await stage.call(other)).status).toBe(400)
    },
  )

  it('gives its caller the secret that "collet secrets set" stored without --principal', async () => {
    const stage = await openServer()
    const at = ['--store', stage.settings.store, '--principal', ANONYMOUS.id]
    expect((await collet(stage, ['secrets', 'set', 'API_KEY', ...at], VALUE)).code).toBe(0)
    expect((await stage.call({ tool: 'Text.Secret' })).value).toBe('done')
    expect(stage.given.at(-1)?.token).toBe(VALUE)
  })

  it('refuses a key of another server, and ignores a token for another server (OTC-98)', async () => {
    const stage = await openServer()
    const foreign = `clt_${'a'.repeat(24)}_${'b'.repeat(43)}`
    const ask = (headers: Record<string, string>) => fetch(`${stage.url}/tools`, { headers })
    for (const headers of [{ authorization: `Bearer ${foreign}` }, { 'x-api-key': foreign }]) {
      const refused = await ask(headers)
      expect(refused.status).toBe(401)
      expect(await refused.text()).toContain('this server has no keys')
    }
    for (const authorization of ['Bearer eyJhbGciOi.J9.sig', 'Bearer secret', 'Basic eDp5'])
      expect((await ask({ authorization })).status).toBe(200)
  })
})

describe('the first key of a server that had none', () => {
  it('ends anonymous calls; their stored secrets are kept for the operator, and reach no caller', async () => {
    const stage = await openServer()
    const at = ['--store', stage.settings.store]
    await collet(stage, ['secrets', 'set', 'API_KEY', '--principal', ANONYMOUS.id, ...at], VALUE)
    const { url } = await stage.challenge()
    const { stdout, stderr } = await collet(stage, ['keys', 'create', 'me', '--scope', 'users:assert', ...at])
    const key = stdout.trim()
    expect(stderr).toContain('From now on every caller needs a key.')
    expect((await collet(stage, ['keys', 'create', 'you', ...at])).stderr).not.toContain('From now on')
    await expect.poll(async () => (await askOtc(stage.url, { key, tool: 'Text.Secret' })).status).toBe(400)
    await expect
      .poll(async () => (await askOtc(stage.url, { key: '', tool: 'Text.Secret' })).status)
      .toBe(401)
    const page = await new Browser().get(url)
    expect(page.text).toContain('Callers without a key have no vault here.')
    const rows = JSON.parse((await collet(stage, ['secrets', 'list', '--json', ...at])).stdout)
    expect(rows).toMatchObject([{ name: 'API_KEY', principal: 'anonymous' }])
    const late = await collet(stage, ['secrets', 'set', 'K', '--principal', ANONYMOUS.id, ...at], 'x')
    expect(late.stderr).toContain('Every caller of this server needs a credential')
  })
})

describe('a secret of a tenant', () => {
  it('is used by its callers without their own secret, in calls without a user, and by no other tenant', async () => {
    const stage = await openStage()
    stages.push(stage)
    const at = ['--store', stage.settings.store]
    const set = (value: string, ...owner: readonly string[]) =>
      collet(stage, ['secrets', 'set', 'API_KEY', ...owner, ...at], value)
    const used = async (asked: object) => {
      const { status } = await askOtc(stage.url, { tool: 'Text.Secret', ...asked })
      return status === 200 ? stage.given.at(-1)?.token : status
    }
    await set('of another tenant', '--tenant', 'other')
    expect(await used({})).toBe(400)
    await set('shared', '--tenant', 'default')
    expect(await used({})).toBe('shared')
    expect(await used({ key: OTHER })).toBe('shared')
    expect(await used({ userId: 'u1' })).toBe(400)
    await set('own', '--principal', 'key:agent')
    expect([await used({}), await used({ key: OTHER })]).toEqual(['own', 'shared'])
    const token = await collet(
      stage,
      ['secrets', 'set', 'mailer', '--token', '--tenant', 'default', ...at],
      't',
    )
    expect(token.stderr).toContain('not a token')
  })
})
