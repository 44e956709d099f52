import type { ReactNode } from 'react'

/*
 * The texts of the page of a tool. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  copyDefinitionHash: 'Copy definition hash',
  openSources: 'Open Sources',
  hasBeenSince: (source: ReactNode, source2: ReactNode, source3: ReactNode) => (
    <>
      {source} has been {source2} since {source3}.
    </>
  ),
  callsFailUntilBack: 'Calls fail until it is back.',
  itsSourceChangedDefinitionAt: (change: ReactNode, change2: ReactNode) => (
    <>
      Its source changed the definition at {change} ({change2}).
    </>
  ),
  cannotBeCalledUntilChange: 'It cannot be called until the change is decided.',
  previousDefinitionServedUntilChange: 'The previous definition is served until the change is decided.',
  result: 'Result',
  request: 'Request',
  headers: 'Headers',
  test: 'Test',
  viewAnswer: 'View of the answer',
  replayed: 'Replayed.',
  callWasAlreadyRecordedSo: (replayed: ReactNode) => (
    <>{replayed} The call was already recorded, so nothing ran again. This is the recorded answer.</>
  ),
  callAsTest: 'The call as a test',
  succeeded: 'Succeeded',
  cancelled: 'Cancelled',
  refused: 'Refused',
  failed: 'Failed',
  serverAnswered: (status: Text) => `The server answered ${status}.`,
  nothingTookEffectCallMay: 'Nothing took effect. The call may be repeated.',
  toolMayHaveRunCheck: 'The tool may have run. Check the call before you run it again.',
  nothingRan: 'Nothing ran.',
  youStoppedThisCallEffects:
    'You stopped this call. Effects so far remain: check the call before you run it again.',
  youStoppedThisCall: 'You stopped this call.',
  invalidFieldsAreMarkedIn: 'Invalid fields are marked in the form.',
  signInAgain: 'Sign in again.',
  seeRequirements: 'See Requirements.',
  fillInUserId: 'Fill in the user id.',
  forDevelopers: 'For developers',
  answer: 'The answer',
  untrustedContentFromExternalServer: 'Untrusted content from an external server.',
  output: 'Output',
  timeInTool: (runMs: Text, total: Text) => `Time: ${runMs} in the tool of ${total}`,
  run: (runMs: ReactNode) => <>run {runMs}</>,
  overhead: (rest: ReactNode) => <>overhead {rest}</>,
  waitedForApproval: (answer: ReactNode) => <>waited for approval {answer}</>,
  postToolsCallHttp1: 'POST /tools/call HTTP/1.1',
  http11: (answer: Text) => `HTTP/1.1 ${answer}`,
  headersAnswer: 'Headers of the answer',
  runToolSeeItsResult: 'Run the tool to see its result.',
  callRunning: 'The call is running.',
  callWaitingForApproval: 'The call is waiting for approval.',
  callWaitingForAccess: 'The call is waiting for access.',
  outcomeCallUnknown: 'The outcome of the call is unknown.',
  answerHasArrived: 'The answer has arrived.',
  stopping: 'stopping',
  running: 'running',
  wasAskedStop: 'It was asked to stop.',
  stop: 'Stop',
  running2: 'Running',
  progress: 'Progress',
  wasAskedStopEffectsSo: 'It was asked to stop. Effects so far remain.',
  openApproval: 'Open the approval',
  nothingRanYetPersonMust: (callId: ReactNode) => (
    <>
      Nothing ran yet. A person must approve this call. Leave this page open: the call continues after the
      decision. The call ID is {callId}.
    </>
  ),
  waitingForApproval: 'Waiting for approval',
  since: (since: ReactNode) => <>since {since}</>,
  openCall: 'Open the call',
  continueThisCall: 'Continue this call',
  inputAboveDiffersFromInput: 'The input above differs from the input of this call. Nothing was changed.',
  youMadeThisCallBefore: (callId: ReactNode) => (
    <>
      You made this call before the page was loaded, and nothing ran yet. Enter the same input above and
      continue: it is sent with the same call ID, {callId}, so it needs no second approval.
    </>
  ),
  withdrawCall: 'Withdraw call…',
  withdrawThisCall: 'Withdraw this call?',
  withdrawCall2: 'Withdraw call',
  keepWaiting: 'Keep waiting',
  endsAtOnceWithoutRunning: 'It ends at once without running, and can no longer be approved.',
  waitingForAccess: 'Waiting for access',
  giveUp: 'Give up',
  account: 'the account',
  connect: 'Connect',
  nothingRanYetToolNeeds:
    'Nothing ran yet. The tool needs access to an account. Grant it on the page that opens; the call then continues.',
  at: (phase: ReactNode) => <>at {phase}</>,
  showResult: 'Show result',
  retry: 'Retry',
  outcomeCouldNotBeRead: (phase: ReactNode) => <>The outcome could not be read: {phase} </>,
  youRanThisToolBefore: (callId: ReactNode) => (
    <>You ran this tool before the page was loaded, and its answer was not shown. The call ID is {callId}.</>
  ),
  soNothingRunsTwice: ', so nothing runs twice.',
  callMayHaveRunRetry: (callId: ReactNode, hasEffects: ReactNode) => (
    <>
      The call may have run. A retry sends the same call ID, {callId}: if it ran, you get the recorded answer
      {hasEffects}
    </>
  ),
  resultNotShownYet: 'Result not shown yet',
  connectionBroke: 'The connection broke',
  outcomeUnknown: 'Outcome unknown',
  changes: 'Changes',
  waitingForDecision: 'Waiting for a decision.',
  accepted: 'accepted',
  by: (pin: Text) => `by ${pin}, `,
  shownHere: 'shown here',
  earlier: 'earlier',
  definitionsEarlierCallsAreShown:
    'Definitions of earlier calls are shown to people with the scope admin:calls.',
  copyAs: 'Copy as',
  language: 'Language',
  over: 'over',
  protocol: 'Protocol',
  callAsOver: (language: Text, protocol: Text) => `The call as ${language} over ${protocol}`,
  fromVault: 'from the vault',
  credential: (vault: ReactNode) => <>Credential {vault}</>,
  openAccess: 'Open Access',
  noneOperatorWhoRunsTool:
    "none: an operator who runs a tool as a caller does not use the caller's credentials.",
  storedForCallsUser: "stored for the call's user.",
  storedFor: (who: Text) => `stored for ${who}.`,
  storedForButNoLonger: (who: Text) => `stored for ${who}, but no longer valid. Connect it again.`,
  storedForButLacksPermission: (who: Text) => `stored for ${who}, but lacks a permission. Connect it again.`,
  notStoredForYet: (who: Text) => `not stored for ${who} yet.`,
  json: 'JSON',
  jsonOrEmpty: 'JSON, or empty',
  notValidJsonTextNeeds: 'Not valid JSON. Text needs double quotes.',
  required: 'required',
  name: (label: Text) => `Name of ${label}`,
  remove: (label: Text) => `Remove ${label}`,
  optionalField: 'optional field',
  show: (optional: ReactNode) => <>Show {optional}</>,
  addMember: 'Add a member',
  list: 'the list',
  add: (the: ReactNode) => <>Add to {the}</>,
  remove2: (index: Text) => `Remove ${index}`,
  open: (value: ReactNode) => <>Open {value}</>,
  thisValueHasNoField: 'This value has no field. Edit it as JSON.',
  chooseOne: 'Choose one',
  defaultWord: (showValue: Text) => `Default: ${showValue}`,
  kind: (label: Text) => `Kind of ${label}`,
  notSent: 'not sent',
  defaultWord2: (defaultValue: Text) => `Default: ${defaultValue}`,
  clear: (label: ReactNode) => <>Clear{label}</>,
  thisSchemaHasNoForm: 'This schema has no form. Edit the input as JSON.',
  toolCouldNotBeRead: 'The tool could not be read',
  thereNoSuchTool: 'There is no such tool',
  openTools: 'Open Tools',
  breadcrumb: 'Breadcrumb',
  tools: 'Tools',
  widthDocumentation: 'Width of the documentation',
  version: 'Version',
  onThisPage: 'On this page',
  about: 'About',
  try: 'Try it',
  schemas: 'Schemas',
  changes2: (tool: ReactNode) => <>Changes{tool}</>,
  calls: 'Calls',
  requirements: 'Requirements',
  none: 'None',
  copyCommandSends: (requirement: Text) => `Copy command that sends ${requirement}`,
  copyCommand: 'Copy command',
  scope: (id: Text) => `Scope ${id}`,
  userId: 'User id',
  secret: (id: Text) => `Secret ${id}`,
  heldByCaller: 'held by a caller',
  noCallerHas: 'no caller has it',
  yourCredentialNamesNoUser: 'your credential names no user',
  sentByCallerWithEach: 'sent by the caller with each call',
  inVault: 'in the vault',
  notSet: 'not set',
  noLongerValid: 'no longer valid',
  lacksPermission: 'lacks a permission',
  onePerUser: 'one per user',
  copyCommandMakesKeyWith: (requirement: Text) => `Copy command that makes a key with ${requirement}`,
  replaceSecret: 'Replace secret',
  setSecret: 'Set secret',
  copyCommandSets: (requirement: Text) => `Copy command that sets ${requirement}`,
  go: (requirement: ReactNode) => <>Go to {requirement}</>,
  connectAnother: 'Connect another',
  permissions: 'Permissions',
  timesOutAfter: (policy: Text) => `Times out after ${policy}.`,
  keepsStateBetweenCallsSession: 'Keeps state between calls of a session.',
  calls2: (listed: ReactNode) => <>Calls {listed}.</>,
  computesOnly: 'Computes only.',
  readsChangesNothing: 'Reads. Changes nothing.',
  changesExternalState: 'Changes external state.',
  runsProgramOnServersMachine: "Runs a program on the server's machine.",
  noNetworkAccess: 'No network access.',
  and: (listed: ReactNode) => <>and {listed}</>,
  networkAccessOnlyThroughGuarded: 'Network access only through the guarded fetch: public addresses',
  networkAccessDeclaredBySource: 'Network access: declared by the source, not enforced.',
  networkAccessNotDeclared: 'Network access: not declared.',
  runsWithoutApproval: 'Runs without approval.',
  peopleApprove: (terms: Text) => `${terms} people approve`,
  personApproves: 'a person approves',
  someCallsWaitUntilThem: (who: Text) => `Some calls wait until ${who} them; an approval rule selects them.`,
  eachCallWaitsUntil: (who: Text) => `Each call waits until ${who} it.`,
  approversNeedScope: (required_scope: ReactNode) => <>Approvers need the scope {required_scope}.</>,
  callersMayApproveTheirOwn: ' Callers may approve their own calls.',
  requestExpiresAfter: (when: ReactNode, terms: ReactNode) => (
    <>
      {when} A request expires after {terms}.
    </>
  ),
  mayRunAgain: 'it may run again.',
  mayRunAgainWithin: (windowMs: Text) => `it may run again within ${windowMs}.`,
  operatorMustSettleFirst: 'an operator must settle it first.',
  retriesWithSameCallId: (cut: Text) =>
    `Retries with the same call ID return the stored result. After a crash, ${cut}`,
  callersNeedScope: (scopes: ReactNode, listed: ReactNode) => (
    <>
      Callers need the scope{scopes} {listed}.
    </>
  ),
  onlyForTenant: (tenants: ReactNode, listed: ReactNode) => (
    <>
      Only for the tenant{tenants} {listed}.
    </>
  ),
  readable: 'Readable',
  jsonSchema: 'JSON Schema',
  modelsView: 'Model’s view',
  openai: 'OpenAI',
  anthropic: 'Anthropic',
  modelDefinition: 'Model definition',
  input: 'Input',
  viewSchema: 'View of the schema',
  format: 'Format',
  definitionForModels: 'Definition for models',
  inputSchema: 'Input schema',
  outputSchema: 'Output schema',
  noOutputSchema: 'No output schema',
  one: (choices: ReactNode) => <>One of {choices}</>,
  defaultWord3: (defaultValue: ReactNode) => <>Default: {defaultValue}</>,
  nestedValuesAreLeftOut: 'Nested values are left out. The JSON Schema has all of them.',
  inputNotValidJson: 'The input is not valid JSON.',
  runForReal: 'Run for real',
  run2: 'Run',
  form: 'the form',
  userCallFor: 'the user that the call is for',
  ctrl: 'Ctrl ↵',
  thisToolDeclaresNoParameters: 'This tool declares no parameters. Run it as it is, or enter JSON.',
  thisToolTakesNoInput: 'This tool takes no input.',
  runsProgram: 'runs a program',
  changesSomething: 'changes something',
  callWaitsForApprovalLike: (does: ReactNode) => (
    <>It {does}. The call waits for approval, like that of any caller.</>
  ),
  reallyOneCallRunsOnce: (does: ReactNode) => (
    <>It really {does}. One call runs once, even if the connection breaks.</>
  ),
  example: 'Example',
  example2: (nameOfExample: Text) => `Example: ${nameOfExample}`,
  notValidJson: 'Not valid JSON.',
  inputAsJson: 'Input as JSON',
  copyInput: 'Copy input',
  notJson: 'not JSON',
  usage: 'Usage',
  withoutError: 'Without error',
  errors: 'Errors',
  callsErrors: (usage: Text, usage2: Text) => `${usage} calls, ${usage2} errors`,
  runTimeP50P95: (usage: Text, usage2: Text) => `Run time: p50 ${usage}, p95 ${usage2}`,
} as const
