import { describe, expect, it } from 'vitest'
import { ADD, findingsOf, prepared } from '../../../test/samples/definitions.ts'

describe('requirements', () => {
  it('OTC-37…41: are kept as written, unknown members included', () => {
    const requirements = {
      authorization: [
        { id: 'google', oauth2: { scopes: ['mail'], audience: 'x' }, note: 1 },
        { id: 'github' },
      ],
      secrets: [{ id: 'KEY', note: 'x' }],
      userId: true,
      region: 'eu',
    }
    expect(prepared({ ...ADD, requirements }).requirements).toEqual(requirements)
  })

  it('OTC-37: are absent if nothing is needed', () => {
    for (const requirements of [undefined, {}, { secrets: [], authorization: [], userId: false }]) {
      expect(prepared({ ...ADD, requirements })).not.toHaveProperty('requirements')
    }
  })

  it('OTC-38, OTC-39, OTC-40, C-29: entries have ids, scopes are strings, `userId` is a boolean', () => {
    const requirements = {
      authorization: [
        { oauth2: {} },
        { id: 'a', oauth2: { scopes: [1] } },
        { id: 'b', oauth2: 'x' },
        'c',
        { id: 'a' },
      ],
      secrets: [{}, { id: '' }],
      userId: 'yes',
      user_id: true,
    }
    expect(findingsOf({ requirements }).map((finding) => finding.split(':')[0])).toEqual([
      'requirements/userId',
      'requirements/user_id',
      'requirements/authorization/0/id',
      'requirements/authorization/1/oauth2/scopes',
      'requirements/authorization/2/oauth2',
      'requirements/authorization/3',
      'requirements/authorization/4/id',
      'requirements/secrets/0/id',
      'requirements/secrets/1/id',
    ])
    expect(findingsOf({ requirements: [] })).toEqual(['requirements: Is not an object.'])
    expect(findingsOf({ requirements: { secrets: {} } })).toEqual(['requirements/secrets: Is not a list.'])
    expect(findingsOf({ requirements: { x: () => 1 } })).toEqual([
      expect.stringMatching(/^requirements\/x: /),
    ])
  })

  it.each([
    ['userid', 'userId'],
    ['user_id', 'userId'],
    ['UserID', 'userId'],
    ['secret', 'secrets'],
    ['Secrets', 'secrets'],
    ['authorisation', 'authorization'],
    ['authorizations', 'authorization'],
  ])('OTC-41: `%s` is refused, because a misspelled requirement would never be checked', (written, meant) => {
    expect(findingsOf({ requirements: { [written]: true } })).toEqual([
      `requirements/${written}: Is an unknown requirement. Did you mean "${meant}"?`,
    ])
  })

  it('OTC-41: accepts unknown names that resemble no known name', () => {
    const requirements = { region: 'eu', 'x-vault': 1, approval: { by: 'owner' }, certificates: [] }
    expect(prepared({ ...ADD, requirements }).requirements).toEqual(requirements)
  })
})
