import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAuthorizationServer, type TestAuthorizationServer } from '../oauth/authorization-server.ts'
import { Browser } from '../oauth/browser.ts'
import { SharedKills } from './shared-kills.ts'
import { askJson, eventsOf, LANES } from './trust-lanes.ts'
import { TrustProject } from './trust-project.ts'

const LIMIT_MS = 120_000
const CONSENTS = ['OTC', 'OpenTool', 'openwop'] as const
const APPROVALS = ['OTC', 'OpenTool', 'OpenTool without a key', 'openwop'] as const
const BOTH = ['OTC', 'OpenTool', 'openwop'] as const
const CONSENT = 'rules 20, 25: consent: ticket † sign-in, provider † callback † call, one effect,'
const APPROVAL = 'rules 6, 20, 21: approval: parked † yes † call, one effect,'
const CONSENT_AND_APPROVAL =
  'rules 20, 21: consent and approval: ticket † tokens † parked † yes † call, one effect,'
const QUORUM = 'rule 23: a quorum: link † sign-in † its approver’s yes † the other’s yes † call, one effect'
type LaneName = keyof typeof LANES

const nameOf = (story: string, lane: LaneName) => `${story}-${lane.replaceAll(' ', '-').toLowerCase()}`
const CALLERS = [
  ...CONSENTS.map((lane) => nameOf('consent', lane)),
  ...APPROVALS.map((lane) => nameOf('approval', lane)),
  ...BOTH.map((lane) => nameOf('both', lane)),
  'quorum',
]

describe('stories of trust, on a server that is killed in the middle of each', () => {
  let issuer: TestAuthorizationServer
  let project: TrustProject
  let kills: SharedKills
  beforeAll(async () => {
    issuer = await startAuthorizationServer()
    project = new TrustProject(CALLERS, issuer)
    kills = new SharedKills(stories.size, () => project.restart())
    await project.start()
    for (const [name, story] of stories) {
      const reported = kills.tell(story)
      // Reading this resource shows the mark.
      reported.catch(() => undefined)
      notices.set(name, reported)
    }
  }, LIMIT_MS)
  afterAll(async () => {
    await project.remove()
    await issuer[Symbol.asyncDispose]()
  })

  /** Visits the provider and stops before the redirect back, whose address it returns. */
  async function leave(browser: Browser, url: string): Promise<string> {
    const backs: string[] = []
    const isLast = (next: string) => next.includes('/oauth/callback') && backs.push(next) > 1
    await browser.visit(url, { login: 'ann', stopsAt: isLast })
    return backs[1] ?? expect.fail('nobody came back from the provider')
  }

  /** Approves, by another route in each story. */
  async function approve(lane: LaneName, { id, run }: { id: string; run: string }): Promise<void> {
    if (lane === 'OpenTool') {
      const { code, stderr } = await project.collet('approvals', 'approve', id)
      expect([code, stderr]).toEqual([
        0,
        expect.stringMatching(/^Acting as cli:.+, directly on the store\n$/),
      ])
      return
    }
    if (lane === 'openwop') {
      const asked = (await eventsOf(project, run.replace('run-', ''), run)).findLast(
        ({ type }) => type === 'interrupt.requested',
      )
      const path = `${project.url}/v1/runs/${run}/interrupts/${asked?.nodeId}`
      const { json } = await askJson(path, 'bob', { resumeValue: { action: 'accept' } })
      expect(json.status).toBe('resumed')
      return
    }
    const { json } = await askJson(`${project.url}/admin/approvals/${id}/approve`, 'bob', {})
    expect(json.approval.state).toBe('granted')
  }

  async function expectRun(name: string, types: readonly string[]): Promise<void> {
    const events = await eventsOf(project, name, `run-${name}`)
    expect(events.map(({ type }) => type)).toEqual(types)
    expect(events.map(({ sequence }) => sequence)).toEqual(types.map((_, index) => index))
  }

  /** † marks a kill. */
  const consent = (lane: LaneName) => async () => {
    const name = nameOf('consent', lane)
    const call = () => LANES[lane](project, 'Mail.Send', name)
    const first = await call()
    expect(first.code).toBe('requirement_missing')
    const [{ id, url, check_url: check }] = first.missing.authorization
    await kills.kill()

    expect((await call()).missing.authorization[0].id).toBe(id)
    const browser = new Browser()
    const back = await leave(browser, url)
    await kills.kill()

    expect((await browser.get(back)).text).toContain('has been granted')
    expect((await askJson(check, name)).json.status).toBe('completed')
    await kills.kill()

    const done = await call()
    expect([done.code, done.value]).toEqual([
      undefined,
      expect.objectContaining({ key: name, withToken: true }),
    ])
    await kills.kill()

    expect((await call()).value).toEqual(done.value)
    expect(project.effectsOf(name)).toBe(1)
    if (lane === 'openwop') await expectRun(name, [...CONSENTED, 'agent.toolCalled', 'agent.toolReturned'])
  }

  const approval = (lane: LaneName) => async () => {
    const name = nameOf('approval', lane)
    const call = () => LANES[lane](project, 'Bank.Pay', name)
    const parked = await call()
    expect(parked.code).toBe('approval_required')
    const { id, check_url: check } = parked.missing.approval
    await kills.kill()

    expect((await call()).missing.approval.id).toBe(id)
    await approve(lane, { id, run: parked.run })
    expect(project.effectsOf(name)).toBe(0)
    await kills.kill()

    expect((await askJson(check, name)).json.status).toBe('completed')
    const done = await call()
    expect([done.code, done.value]).toEqual([undefined, expect.objectContaining({ key: name })])
    await kills.kill()

    if (lane !== 'OpenTool without a key') expect((await call()).value).toEqual(done.value)
    expect(project.effectsOf(name)).toBe(1)
    if (lane === 'openwop') await expectRun(name, APPROVED)
  }

  const both = (lane: LaneName) => async () => {
    const name = nameOf('both', lane)
    const call = () => LANES[lane](project, 'Mail.Pay', name)
    const first = await call()
    expect([first.code, first.missing.approval]).toEqual(['requirement_missing', undefined])
    await kills.kill()

    const browser = new Browser()
    const back = await leave(browser, first.missing.authorization[0].url)
    expect((await browser.get(back)).text).toContain('has been granted')
    await kills.kill()

    const parked = await call()
    expect(parked.code).toBe('approval_required')
    const { id } = parked.missing.approval
    await kills.kill()

    await approve(lane, { id, run: parked.run })
    await kills.kill()

    const done = await call()
    expect(done.value).toMatchObject({ key: name, withToken: true })
    expect((await call()).value).toEqual(done.value)
    expect(project.effectsOf(name)).toBe(1)
    if (lane === 'openwop') await expectRun(name, [...CONSENTED, ...APPROVED])
  }

  const quorum = async () => {
    const call = () => LANES.OTC(project, 'Bank.Settle', 'quorum')
    const { id } = (await call()).missing.approval
    const admin = `${project.url}/admin/approvals/${id}`
    const { json: link } = await askJson(`${admin}/link`, 'bob', { approver: 'carol' })
    expect(link.needs_sign_in).toBe(true)
    await kills.kill()

    const browser = new Browser()
    const backs: string[] = []
    const stopsAt = (next: string) => next.includes('/oauth/callback') && backs.push(next) > 0
    await browser.visit(`${link.url}/sign-in`, { login: 'carol', stopsAt })
    await kills.kill()

    const form = await browser.get(backs[0] ?? '')
    const action = /action="([^"]+\/approve\?[^"]+)"/.exec(form.text)?.[1] ?? ''
    const headers = { origin: project.url, 'sec-fetch-site': 'same-origin' }
    const pressed = await browser.get(`${project.url}${action}`, { method: 'POST', headers })
    expect(pressed.text).toContain('More approvers are needed')
    await kills.kill()

    expect((await call()).code).toBe('approval_required')
    const { json } = await askJson(`${admin}/approve`, 'eve', {})
    expect(json.approval).toMatchObject({
      state: 'granted',
      decisions: [{ by: `jwt:${issuer.issuer}#carol` }, { by: 'key:eve' }],
    })
    await kills.kill()

    expect((await call()).value).toMatchObject({ key: 'quorum' })
    expect((await call()).value).toMatchObject({ key: 'quorum' })
    expect(project.effectsOf('quorum')).toBe(1)
  }

  const stories: ReadonlyMap<string, () => Promise<void>> = new Map([
    ...CONSENTS.map((lane) => [`${CONSENT} over ${lane}`, consent(lane)] as const),
    ...APPROVALS.map((lane) => [`${APPROVAL} over ${lane}`, approval(lane)] as const),
    ...BOTH.map((lane) => [`${CONSENT_AND_APPROVAL} over ${lane}`, both(lane)] as const),
    [QUORUM, quorum],
  ])
  const notices = new Map<string, Promise<void>>()

  it.each([...stories.keys()])('%s', { timeout: LIMIT_MS }, async (name) => {
    await notices.get(name)
  })

  it('run with four kills in total', () => {
    expect(kills.kills).toBe(4)
  })

  it('rule 15: the journal is still intact', { timeout: LIMIT_MS }, async () => {
    const { code, stdout, stderr } = await project.collet('journal', 'verify')
    expect([code, stdout + stderr]).toEqual([0, expect.any(String)])
  })
})

const CONSENTED = ['interrupt.requested', 'node.suspended', 'connector.authorized', 'interrupt.resolved']

const APPROVED = [
  'agent.toolCalled',
  'interrupt.requested',
  'node.suspended',
  'approval.granted',
  'interrupt.resolved',
  'agent.toolReturned',
]
