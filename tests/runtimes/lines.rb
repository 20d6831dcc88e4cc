# Prints, of methods long and short: the address of an iseq, a bar, and number and line of each of its instructions, as Ruby itself says
# them; then waits, so that its memory can be looked at.
require "fiddle"

def address(iseq) # RTypedData: flags, class, type, 1, data
  Fiddle::Pointer.new(Fiddle.dlwrap(iseq) + 32)[0, 8].unpack1("Q")
end

def each_part(iseq, &block)
  block.call(iseq)
  iseq.each_child { |child| each_part(child, &block) }
end

long = (1..400).map { |i| i % 7 == 0 ? "\n  a = a.map do |v|\n    v + #{i}\n  end" : "a << #{i} + b" }.join("\n")
source = "def one; 1; end\ndef none\nend\ndef long(b = 2,\n  c: 3)\n  a = []\n#{long}\n  a\nend\nclass Klass\n  def m(x)\n x ? [1,\n 2] : raise(\n'no') end\nend\n"
kept = [RubyVM::InstructionSequence.compile(source, "lines", "/lines", 3), RubyVM::InstructionSequence.of(method(:each_part))]
kept.each do |whole|
  each_part(whole) do |iseq|
    line = nil
    own = iseq.disasm.lines.drop(1).take_while { |l| l !~ /^== disasm/ }
    found = own.map do |l|
      next unless l =~ /^(\d{4,}) /
      at = $1.to_i
      line = $1.to_i if l =~ /\(\s*(\d+)\)(\[\w+\])?\s*$/
      "#{at}:#{line}"
    end
    puts "#{address(iseq)} | #{found.compact.join(' ')}"
  end
end
puts "end"
$stdout.flush
$stdin.read
