// Reads the messages of a connection with llhttp, the parser of Node, until its end; KIND is REQUEST or RESPONSE.
const { HTTPParser, allMethods } = process.binding('http_parser');

const pairs = (list) =>
  Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at].toLowerCase(), list[2 * at + 1]]);

const read = (data) => {
  const messages = [];
  let isOpen = false;
  // Heads with many fields come in parts.
  let fields = [];
  let target = '';
  const parser = new HTTPParser();
  parser.initialize(HTTPParser[KIND], {}, 65536, HTTPParser.kLenientNone);
  parser[HTTPParser.kOnHeaders] = (list, url) => {
    fields.push(...list);
    target += url;
  };
  parser[HTTPParser.kOnHeadersComplete] = (_major, _minor, list, method, url, status) => {
    isOpen = !(status >= 100 && status < 200);
    const start = KIND === 'REQUEST' ? `${allMethods[method]} ${target + (url ?? '')}` : String(status);
    if (isOpen) messages.push([start, pairs(fields.concat(list ?? [])), '']);
    return 0;
  };
  parser[HTTPParser.kOnBody] = (body) => {
    messages.at(-1)[2] += body.toString('latin1');
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    isOpen = false;
    [fields, target] = [[], ''];
  };
  const end = parser.execute(data);
  const isWhole = end === data.length && !(parser.finish() instanceof Error) && !isOpen;
  parser.close();
  return isWhole ? messages : null;
};
