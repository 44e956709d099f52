import { expect, it } from 'vitest'
import { EMPTY_FORM, problemOf } from './key-form.ts'

it.each([
  ['principal: expected 1 to 128 letters.', 'principal', 'Name: expected 1 to 128 letters.'],
  ['scopes.1: expected a scope.', 'scopes', 'Scopes: expected a scope.'],
  ['roles.0: unknown.', 'roles', 'Roles: unknown.'],
  ['tools.0: names no tool.', 'tools', 'Only these tools: names no tool.'],
  ['toolsets.0: unknown.', 'toolsets', 'Only these toolsets: unknown.'],
  ['tenant: is not yours.', 'tenant', 'Tenant: is not yours.'],
  ['label: too long.', 'label', 'Label: too long.'],
  ['expires_at: must be in the future.', 'expires', 'Expires: must be in the future.'],
  ['The name ci is taken.', 'principal', 'The name ci is taken.'],
])('"%s" is shown at the field %s', (message, member, text) => {
  expect(problemOf(message)).toEqual({ member, text })
  expect(EMPTY_FORM).toHaveProperty(member)
})
